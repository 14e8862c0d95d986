"""Batches of decoded images from worker threads: Pillow and numpy release the interpreter lock while they work."""

import contextlib
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vse_pipe.artifacts.features import UNREADABLE
from vse_pipe.core import devices
from vse_pipe.core.console import track, warn
from vse_pipe.core.errors import InputError, PipelineError, UnreadableImage, out_of_memory
from vse_pipe.extract.backbone import Failure, Output
from vse_pipe.extract.job import Job, plan
from vse_pipe.extract.params import FeatureParams, ImageParams
from vse_pipe.extract.shards import Shard
from vse_pipe.pictures.images import Item
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES

Arrays = np.ndarray | tuple[np.ndarray, ...]
Read = Callable[[Item], Arrays]


@dataclass(frozen=True)
class ReadBatch:
    """arrays: (B, ...), or a tuple of such, for the B ``items`` that could be read, None when B is 0; failures: the others.

    Both lists are in the order of the images that were asked for.
    """

    arrays: Arrays | None
    items: list[Item]
    failures: list[Failure] = field(default_factory=list)


def batches(
    work: Iterable[list[Item]], read: Read, ahead: int, workers: int | None = None
) -> Generator[ReadBatch, None, None]:
    """One ReadBatch for each list of items, in order.

    ahead: batches read while the caller works on one; 0 on a CPU, where readers would only take cores from the
    model (see stage). An image for which ``read`` raises UnreadableImage is among the failures; other errors are raised,
    that of the first item that has one.
    """
    workers = workers or len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="read")
        stack.callback(pool.shutdown, cancel_futures=True)
        pending: deque[tuple[list[Item], list[Future]]] = deque()
        for items in work:
            pending.append((items, _submit(pool, items, read, workers)))
            if len(pending) > ahead:
                yield _finished(*pending.popleft())
        while pending:
            yield _finished(*pending.popleft())


def _finished(items: list[Item], futures: list[Future]) -> ReadBatch:
    found = [one for future in futures for one in future.result()]
    kept, arrays, failures = [], [], []
    for item, one in zip(items, found, strict=True):
        if isinstance(one, UnreadableImage):
            failures.append(Failure(item.image_id, UNREADABLE, one.reason))
        else:
            kept.append(item)
            arrays.append(one)
    if not kept:
        return ReadBatch(None, [], failures)
    if isinstance(arrays[0], tuple):
        parts = zip(*arrays, strict=True)
        return ReadBatch(tuple(_stacked(list(part), kept) for part in parts), kept, failures)
    return ReadBatch(_stacked(arrays, kept), kept, failures)


def _submit(pool: ThreadPoolExecutor, items: list[Item], read: Read, workers: int) -> list[Future]:
    """Slices, not single items: a future costs as much as decoding a small image."""
    size = -(-len(items) // workers)
    return [pool.submit(_read_all, items[start : start + size], read) for start in range(0, len(items), size)]


def _read_all(items: list[Item], read: Read) -> list[Arrays | UnreadableImage]:
    return [_read_one(item, read) for item in items]


def _read_one(item: Item, read: Read) -> Arrays | UnreadableImage:
    try:
        return read(item)
    except UnreadableImage as error:
        return error


def _stacked(arrays: list[np.ndarray], items: list[Item]) -> np.ndarray:
    first = arrays[0]
    for array, item in zip(arrays, items, strict=True):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise InputError(
                f"{item.where}: {array.dtype} {array.shape}, but image_id {items[0].image_id} has {first.dtype} {first.shape}"
            )
    return np.stack(arrays)


_DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass
class Forward:
    """module: compiled at its first batch where params ask for it; limit: the batch size that the device's memory has
    turned out to allow, None until it has run out; even: how many images every pass has, 0 for as many as are given. Smaller
    batches are filled up: with another number of images the last bits of each may change, with others beside it never.
    """

    module: Callable
    params: FeatureParams
    device: torch.device
    limit: int | None = None
    even: int = 0
    _not_compiled: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.params, ImageParams) and self.params.compile:
            self.module = torch.compile(self.module)
            # torch.compile has imported it, which takes a second that others need not wait.
            self._not_compiled = (torch._dynamo.exc.BackendCompilerFailed,)

    def __call__(self, batch: np.ndarray | tuple[np.ndarray, ...]) -> Output:
        """batch: (B, ...) as read -> features (B, D) or (B, R, D) in the type that params ask for, each vector
        normalised by itself; boxes and scores in float32 where the module gives them.

        A batch that does not fit is run in halves: other batch sizes may change the last bits of the features.
        Raises PipelineError when a single image does not fit, or the network cannot be compiled.
        """
        arrays = batch if isinstance(batch, tuple) else (batch,)
        count, more = len(arrays[0]), self.even - len(arrays[0])
        if more > 0:
            arrays = tuple(np.concatenate([array, np.repeat(array[-1:], more, axis=0)]) for array in arrays)
        found = self._fitting(tuple(map(torch.from_numpy, arrays)))
        return Output(*(None if values is None else values[:count] for values in found)) if more > 0 else found

    def _whole(self, batch: tuple[Tensor, ...]) -> Output:
        found = self.module(*(array.to(self.device) for array in batch))
        found = found if isinstance(found, Output) else Output(found)
        features = found.features
        dtype = _DTYPES[self.params.store] if self.params.store else features.dtype
        if self.params.normalise:
            features = functional.normalize(features.float(), dim=-1)
        beside = (None if value is None else value.float().cpu().numpy() for value in found[1:])
        return Output(features.to(dtype).cpu().numpy(), *beside)

    def _fitting(self, batch: tuple[Tensor, ...]) -> Output:
        count = len(batch[0])
        if self.limit is not None and count > self.limit:
            parts = zip(*(array.split(self.limit) for array in batch), strict=True)
            return joined([self._fitting(part) for part in parts])
        try:
            return self._whole(batch)
        except self._not_compiled as error:
            raise PipelineError(
                f"torch.compile cannot translate this network here; set compile: false ({_first_line(error)})"
            ) from error
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            if count == 1:
                raise PipelineError(f"one image does not fit in the memory of {self.device}: {error}") from error
        # Outside the handler: until it ends, the exception's traceback keeps the tensors of the failed pass alive.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.limit = count // 2
        warn(f"{count} images do not fit in the memory of {self.device}; going on with {self.limit} at a time")
        return self._fitting(batch)


def _first_line(error: Exception) -> str:
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def joined(outputs: list[Output]) -> Output:
    """One output for all images of ``outputs``."""
    columns = zip(*outputs, strict=True)
    return Output(*(None if values[0] is None else np.concatenate(values) for values in columns))


_AHEAD_OF_A_GPU = 4


class Computer:
    """The network of a job, on its device."""

    def __init__(self, job: Job, device: torch.device) -> None:
        assert job.backbone is not None
        if device.type == "cpu":
            devices.keep_freed()
        self.job, self.device, self.read = job, device, job.backbone.read
        backbone = job.node.backbone
        even = 0 if BACKBONES.traits(backbone.name).independent else backbone.params.batch_size
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


# How many images one forward pass should take: measured on this machine, then written into params.yaml by hand.
#
# A size chosen anew at every run would change the last bits of the features from run to run.

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
