"""Features of a job: images decoded in threads, batches through the network, batch sizes."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

import numpy as np
import torch
from torch.nn import functional

from vse_pipe.core import devices
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.extract.backbones.options import FeatureParams
from vse_pipe.extract.job import Job, Output, Shard
from vse_pipe.pictures.images import Item
from vse_pipe.project.registry import BACKBONES

# More threads of readers hold up the thread that feeds the GPU: on 16 cores 5 of them give 961
# images/s of resnet152, 8 give 862, 16 give 574 (float32; reports/gpu.md).
_READERS_OF_A_GPU = 5

Arrays = np.ndarray | tuple[np.ndarray, ...]
Read = Callable[[Item], Arrays]


@dataclass(frozen=True)
class ReadBatch:
    """arrays: (B, ...), or a tuple of such, for the B readable ``items`` in the order of the
    images, None when B is 0; failures: why the other images cannot be read, by image_id."""

    arrays: Arrays | None
    items: list[Item]
    failures: dict[int, str] = field(default_factory=dict)


def ahead_of(device: torch.device) -> int:
    """Batches of pictures to read while the device works. On a CPU readers and network need the
    same cores: to work at once is no faster and costs up to 7 % more time (measured on 2 cores)."""
    return 4 if device.type == "cuda" else 0


def batches(work: Iterable[list[Item]], read: Read, ahead: int) -> Generator[ReadBatch, None, None]:
    """Yield a ReadBatch for each list of items, in order; Pillow and numpy release the interpreter
    lock in their threads.

    ahead: batches that are read while the caller works. Images for which ``read`` raises
    UnreadableImage become failures. Other errors are raised for the first such item."""
    # macOS has no affinity.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = ThreadPoolExecutor(min(cores, _READERS_OF_A_GPU) if ahead else cores, thread_name_prefix="read")
    pending: deque[tuple[list[Item], list[Future]]] = deque()
    try:
        for items in work:
            pending.append((items, [pool.submit(_result, read, item) for item in items]))
            if len(pending) > ahead:
                yield _finished(*pending.popleft())
        while pending:
            yield _finished(*pending.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _result(read: Read, item: Item) -> Arrays | UnreadableImage:
    try:
        return read(item)
    except UnreadableImage as error:
        return error


def _finished(items: list[Item], futures: list[Future]) -> ReadBatch:
    readable, arrays, failures = [], [], {}
    for item, future in zip(items, futures, strict=True):
        result = future.result()
        if isinstance(result, UnreadableImage):
            failures[item.image_id] = result.reason
        else:
            readable.append(item)
            arrays.append(result)
    if not readable:
        return ReadBatch(None, [], failures)
    if isinstance(arrays[0], tuple):
        parts = zip(*arrays, strict=True)
        return ReadBatch(tuple(_stacked(part, readable) for part in parts), readable, failures)
    return ReadBatch(_stacked(arrays, readable), readable, failures)


def _stacked(arrays: Sequence[np.ndarray], items: list[Item]) -> np.ndarray:
    first = arrays[0]
    for array, item in zip(arrays, items, strict=True):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise InputError(
                f"{item.where}: {array.dtype} {array.shape}, but image_id {items[0].image_id} has {first.dtype} {first.shape}"
            )
    return np.stack(arrays)


@dataclass
class Forward:
    """The network on its device.

    even: images of every pass, 0 for any number. Smaller batches are filled up, because the number
    of images can change the last bits of features; the other images of a batch never do."""

    module: Callable
    params: FeatureParams
    device: torch.device
    even: int = 0

    def __call__(self, batch: Arrays) -> Output:
        """Features (B, D) or (B, R, D) in the type of params, and boxes and scores in float32 when
        the module has them. batch: (B, ...) as read."""
        return self.begin(batch)()

    def begin(self, batch: Arrays) -> Callable[[], Output]:
        """Starts a pass and returns the function that waits for its results."""
        arrays = batch if isinstance(batch, tuple) else (batch,)
        count, missing = len(arrays[0]), self.even - len(arrays[0])
        if missing > 0:
            last = (np.repeat(array[-1:], missing, axis=0) for array in arrays)
            arrays = tuple(map(np.concatenate, zip(arrays, last, strict=True)))
        output = self.module(*(devices.sent(torch.from_numpy(array), self.device) for array in arrays))
        features, *extents = output if isinstance(output, Output) else Output(output)
        dtype = getattr(torch, self.params.store) if self.params.store else features.dtype
        if self.params.normalise:
            features = functional.normalize(features.float(), dim=-1)
        values = [features.to(dtype), *(None if value is None else value.float() for value in extents)]
        # The copies are queued behind this pass; ``cpu()`` later would wait for the next one too.
        copies = [None if value is None else value[:count].to("cpu", non_blocking=True) for value in values]
        done = torch.cuda.current_stream(self.device).record_event() if self.device.type == "cuda" else None

        def results() -> Output:
            if done is not None:
                done.synchronize()
            return Output(*(None if copy is None else copy.numpy() for copy in copies))

        return results


def joined(outputs: list[Output]) -> Output:
    """One output for all images of ``outputs``."""
    columns = zip(*outputs, strict=True)
    return Output(*(None if values[0] is None else np.concatenate(values) for values in columns))


# Passes that a GPU has begun before the results of one are awaited.
_IN_FLIGHT_ON_A_GPU = 1


class Computer:
    """The network of a job, on its device."""

    def __init__(self, job: Job, device: torch.device) -> None:
        if device.type == "cpu":
            devices.keep_freed()
        self.job, self.device = job, device
        member = job.node.backbone
        even = 0 if BACKBONES.traits(member.name).independent else member.params.batch_size
        self.forward = Forward(job.backbone.module.to(device), member.params, device, even=even)

    def shards(self, numbers: list[int], title: str = "") -> Iterator[tuple[int, Shard]]:
        """Yield the shards of ``numbers`` in order, each with its number. title: of the progress,
        which is off without one.

        All shards share a stream of batches, so reading goes on while a shard is written. Raises
        what the backbone's ``read`` raises, InputError for features that are not finite."""
        job = self.job
        work = chain.from_iterable(map(job.batches, numbers))
        in_flight = _IN_FLIGHT_ON_A_GPU if self.device.type == "cuda" else 0
        reading = batches(work, partial(job.backbone.read, job.root), ahead_of(self.device))
        total = sum(map(job.batch_count, numbers))
        with contextlib.closing(reading), devices.inference(self.device, job.about["precision"]):
            stream = track(reading, total, title) if title else reading
            passes = begun(stream, self.forward, in_flight)
            for number in numbers:
                rows: list[Output] = []
                failures: dict[int, str] = {}
                for batch, results in islice(passes, job.batch_count(number)):
                    failures |= batch.failures
                    if results is not None:
                        rows.append(_finite(results(), batch.items))
                yield number, Shard(joined(rows) if rows else None, failures)


def begun(
    stream: Iterable[ReadBatch], forward: Forward, in_flight: int
) -> Iterator[tuple[ReadBatch, Callable[[], Output] | None]]:
    """Each batch with the results of its pass, None without a readable image. in_flight: further
    passes that have begun by then, so that the device computes while the caller stores results."""
    waiting: deque[tuple[ReadBatch, Callable[[], Output] | None]] = deque()
    for batch in stream:
        waiting.append((batch, None if batch.arrays is None else forward.begin(batch.arrays)))
        if len(waiting) > in_flight:
            yield waiting.popleft()
    yield from waiting


def _finite(rows: Output, items: list[Item]) -> Output:
    for name, values in rows._asdict().items():
        if values is None:
            continue
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        if len(bad):
            item = items[bad[0]]
            raise InputError(
                f"{item.where}: the {name} of image_id {item.image_id} are NaN or infinite as "
                f"{values.dtype}; if float16 is too narrow, set store: float32 or normalise: true"
            )
    return rows
