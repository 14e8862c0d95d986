"""Images to shards: the one function that every engine runs."""

import contextlib
from collections import deque
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from vse_pipe.core import devices
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.extract.engine.backbone import Failure, Output
from vse_pipe.extract.engine.forward import Forward, joined
from vse_pipe.extract.engine.job import Job
from vse_pipe.extract.engine.reader import batches
from vse_pipe.extract.engine.shards import Shard
from vse_pipe.pictures.images import Item
from vse_pipe.project.registry import BACKBONES

_AHEAD_OF_A_GPU = 4


class Computer:
    """The network of a job, on its device."""

    def __init__(self, job: Job, device: torch.device) -> None:
        assert job.backbone is not None
        if device.type == "cpu":
            devices.keep_freed()
        self.job, self.device, self.read = job, device, job.backbone.read
        backbone = job.node.backbone
        even = 0 if BACKBONES.traits(backbone.name).alone else backbone.params.batch_size
        self.forward = Forward(job.backbone.module.to(device), backbone.params, device, even=even)

    def shards(self, numbers: list[int], what: str = "") -> Iterator[tuple[int, Shard]]:
        """Each of ``numbers`` with its shard, in order. what: heads the progress; without it there is none.

        One stream of batches over all shards: reading goes on while one is written. Raises what the backbone's ``read``
        raises, InputError for features that are not finite.
        """
        job = self.job
        asked: deque[tuple[int, bool]] = deque()
        # A GPU must not wait for readers. On a CPU readers and model need the same cores: working at once is no faster
        # than taking turns and costs up to 7 % more of their time (measured on 2 cores).
        ahead = _AHEAD_OF_A_GPU if self.device.type == "cuda" else 0
        reading = batches(self._asked_for(numbers, asked), partial(self.read, job.root), ahead)
        rows: list[Output] = []
        failures: list[Failure] = []
        with contextlib.closing(reading), devices.inference(self.device, job.about["precision"]):
            for batch in track(reading, sum(map(job.batch_count, numbers)), what) if what else reading:
                number, last = asked.popleft()
                if batch.arrays is not None:
                    rows.append(_finite(self.forward(batch.arrays), batch.items))
                failures += batch.failures
                if last:
                    yield number, Shard(joined(rows) if rows else None, failures)
                    rows, failures = [], []

    def _asked_for(self, numbers: list[int], asked: deque[tuple[int, bool]]) -> Iterator[list[Item]]:
        """The batches of all shards, each noted in ``asked``: its shard, and whether it is the last one of it."""
        for number in numbers:
            work = self.job.batches(number)
            for place, items in enumerate(work, start=1):
                asked.append((number, place == len(work)))
                yield items


def _finite(rows: Output, items: list[Item]) -> Output:
    for name, values in rows._asdict().items():
        if values is None:
            continue
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        if len(bad):
            item = items[bad[0]]
            advice = "; if float16 is too narrow for them, set store: float32 or normalise: true"
            raise InputError(
                f"{item.where}: the {name} of image_id {item.image_id} are NaN or infinite as {values.dtype}"
                f"{advice if name == 'features' else ''}"
            )
    return rows
