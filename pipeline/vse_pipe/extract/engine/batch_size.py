"""How many images one forward pass should take: measured on this machine, then written into params.yaml by hand.

A size chosen anew at every run would change the last bits of the features from run to run.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from vse_pipe.core import devices
from vse_pipe.core.errors import InputError
from vse_pipe.extract.engine.backbone import Output
from vse_pipe.extract.engine.compute import Computer
from vse_pipe.extract.engine.forward import Forward
from vse_pipe.extract.engine.job import plan
from vse_pipe.extract.engine.reader import batches
from vse_pipe.project.params.typed import Params

_LARGEST = 256
_PASSES = 3
# Twice the images for less than this is not worth their memory.
_NEAR = 0.97
# Two sizes in a row below this share of the best: larger ones will not be faster.
_FALLING = 0.9


@dataclass(frozen=True)
class Throughput:
    """rate: images a second of the forward pass alone, the median of three."""

    batch_size: int
    rate: float


def find(params: Params, features: str, device: str) -> Iterator[Throughput]:
    """``measure`` with the first images of the data set that can be read, decoded before. Writes nothing.

    Raises what an extraction raises, InputError when none of the first images can be read.
    """
    node = params.features[features]
    job = plan(node, params.seed, devices.resolve_device(device))
    assert job.backbone is not None
    with contextlib.closing(batches([job.items(0)[:_LARGEST]], partial(job.backbone.read, job.root), 0)) as read:
        batch = next(read)
    if batch.arrays is None:
        raise InputError(f"{job.where}: none of the first {len(batch.failures)} images can be read")
    forward = Computer(job, devices.resolve_device(device)).forward
    forward.even = 0
    with devices.inference(forward.device, job.about["precision"]):
        yield from measure(forward, batch.arrays)


def measure(forward: Forward, batch: np.ndarray | tuple[np.ndarray, ...]) -> Iterator[Throughput]:
    """The rate at 1, 2, 4, ... images, as far as ``batch``, the memory of the device and a gain reach.

    batch: images as read, (B, ...), or a tuple of such arrays. Stops at the first size that does not fit.
    """
    arrays = batch if isinstance(batch, tuple) else (batch,)
    found: list[Throughput] = []
    size = 1
    while size <= min(len(arrays[0]), _LARGEST):
        part = tuple(array[:size] for array in arrays)
        seconds = _seconds(forward, part)
        if forward.limit is not None:
            return
        found.append(Throughput(size, size / seconds))
        yield found[-1]
        best = max(one.rate for one in found)
        if len(found) > 1 and all(one.rate < _FALLING * best for one in found[-2:]):
            return
        size *= 2


def best(found: list[Throughput]) -> Throughput:
    """The smallest batch that is as good as the fastest."""
    fastest = max(one.rate for one in found)
    return next(one for one in found if one.rate >= _NEAR * fastest)


def _seconds(forward: Callable[[tuple], Output], part: tuple[np.ndarray, ...]) -> float:
    """One pass to warm up, which also allocates what the size needs and compiles."""
    forward(part)
    taken = []
    for _ in range(_PASSES):
        started = time.perf_counter()
        forward(part)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
