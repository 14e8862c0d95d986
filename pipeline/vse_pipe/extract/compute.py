"""Features of a job: images decoded in threads, batches through the network, and the best batch size."""

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
from vse_pipe.core.errors import InputError, PipelineError, UnreadableImage, first_line, out_of_memory
from vse_pipe.extract.backbones.options import FeatureParams, ImageParams
from vse_pipe.extract.job import Failure, Job, Output, Shard, plan
from vse_pipe.pictures.images import Item
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES

# More threads of readers hold up the thread that feeds the GPU: on 16 cores 5 of them give 961 images/s of resnet152, 8 give
# 862, 16 give 574 (float32; reports/gpu.md).
_READERS_OF_A_GPU = 5

Arrays = np.ndarray | tuple[np.ndarray, ...]
Read = Callable[[Item], Arrays]


@dataclass(frozen=True)
class ReadBatch:
    """arrays: (B, ...), or a tuple of such, for the B readable ``items``, None when B is 0; failures: of the other
    images.

    Both lists keep the order of the images."""

    arrays: Arrays | None
    items: list[Item]
    failures: list[Failure] = field(default_factory=list)


def batches(
    work: Iterable[list[Item]], read: Read, ahead: int, workers: int | None = None
) -> Generator[ReadBatch, None, None]:
    """Yield a ReadBatch for each list of items, in order; Pillow and numpy release the interpreter lock in their
    threads.

    ahead: batches that are read while the caller works; 0 on a CPU, where readers would take cores from the network.
    Images for which ``read`` raises UnreadableImage become failures. Other errors are raised for the first such item.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none
    workers = workers or (min(cores, _READERS_OF_A_GPU) if ahead else cores)
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
    results = [result for future in futures for result in future.result()]
    readable, arrays, failures = [], [], []
    for item, result in zip(items, results, strict=True):
        if isinstance(result, UnreadableImage):
            failures.append(Failure(item.image_id, UNREADABLE, result.reason))
        else:
            readable.append(item)
            arrays.append(result)
    if not readable:
        return ReadBatch(None, [], failures)
    if isinstance(arrays[0], tuple):
        parts = zip(*arrays, strict=True)
        return ReadBatch(tuple(_stacked(list(part), readable) for part in parts), readable, failures)
    return ReadBatch(_stacked(arrays, readable), readable, failures)


def _submit(pool: ThreadPoolExecutor, items: list[Item], read: Read, workers: int) -> list[Future]:
    """Slices, not single items: a future costs as much as decoding a small image."""
    size = -(-len(items) // workers)
    return [pool.submit(_read_items, items[start : start + size], read) for start in range(0, len(items), size)]


def _read_items(items: list[Item], read: Read) -> list[Arrays | UnreadableImage]:
    results: list[Arrays | UnreadableImage] = []
    for item in items:
        try:
            results.append(read(item))
        except UnreadableImage as error:
            results.append(error)
    return results


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
    """The network on its device. module: compiled at its first batch when params say so; limit: the largest batch that
    fits into memory, None until memory has run out; even: images of every pass, 0 for any number. Smaller batches are
    filled up, because the number of images can change the last bits of features; the other images of a batch never do.
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
            # torch.compile has imported torch._dynamo, which takes a second.
            self._not_compiled = (torch._dynamo.exc.BackendCompilerFailed,)

    def __call__(self, batch: np.ndarray | tuple[np.ndarray, ...]) -> Output:
        """Features (B, D) or (B, R, D) in the type of params, and boxes and scores in float32 when the module has them.

        batch: (B, ...) as read. A batch that does not fit into memory is run in halves, which may change the last bits.
        Raises PipelineError when a single image does not fit, or the network cannot be compiled."""
        arrays = batch if isinstance(batch, tuple) else (batch,)
        count, missing = len(arrays[0]), self.even - len(arrays[0])
        if missing > 0:
            arrays = tuple(np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) for array in arrays)
        output = self._fitting(tuple(map(torch.from_numpy, arrays)))
        return Output(*(None if values is None else values[:count] for values in output)) if missing > 0 else output

    def _run(self, batch: tuple[Tensor, ...]) -> Output:
        output = self.module(*(array.to(self.device) for array in batch))
        output = output if isinstance(output, Output) else Output(output)
        features = output.features
        dtype = _DTYPES[self.params.store] if self.params.store else features.dtype
        if self.params.normalise:
            features = functional.normalize(features.float(), dim=-1)
        boxes_and_scores = (None if value is None else value.float().cpu().numpy() for value in output[1:])
        return Output(features.to(dtype).cpu().numpy(), *boxes_and_scores)

    def _fitting(self, batch: tuple[Tensor, ...]) -> Output:
        count = len(batch[0])
        if self.limit is not None and count > self.limit:
            parts = zip(*(array.split(self.limit) for array in batch), strict=True)
            return joined([self._fitting(part) for part in parts])
        try:
            return self._run(batch)
        except self._not_compiled as error:
            raise PipelineError(
                f"torch.compile cannot translate this network here; set compile: false ({first_line(error)})"
            ) from error
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            if count == 1:
                raise PipelineError(f"one image does not fit in the memory of {self.device}: {error}") from error
        # Outside the handler, because the traceback of the exception keeps the tensors of the failed pass alive.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.limit = count // 2
        warn(f"{count} images do not fit in the memory of {self.device}; going on with {self.limit} at a time")
        return self._fitting(batch)


def joined(outputs: list[Output]) -> Output:
    """One output for all images of ``outputs``."""
    return Output(*(None if values[0] is None else np.concatenate(values) for values in zip(*outputs, strict=True)))


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

    def shards(self, numbers: list[int], title: str = "") -> Iterator[tuple[int, Shard]]:
        """Yield the shards of ``numbers`` in order, each with its number. title: of the progress, which is off without
        one.

        All shards share a stream of batches, so reading goes on while a shard is written. Raises what the backbone's
        ``read`` raises, InputError for features that are not finite."""
        job = self.job
        batches_left: deque[tuple[int, bool]] = deque()
        # A GPU must not wait for readers. On a CPU readers and network need the same cores: working at once is no
        # faster than taking turns and costs up to 7 % more time (measured on 2 cores).
        ahead = _AHEAD_OF_A_GPU if self.device.type == "cuda" else 0
        reading = batches(self._batches(numbers, batches_left), partial(self.read, job.root), ahead)
        rows: list[Output] = []
        failures: list[Failure] = []
        with contextlib.closing(reading), devices.inference(self.device, job.about["precision"]):
            for batch in track(reading, sum(map(job.batch_count, numbers)), title) if title else reading:
                number, last = batches_left.popleft()
                if batch.arrays is not None:
                    rows.append(_finite(self.forward(batch.arrays), batch.items))
                failures += batch.failures
                if last:
                    yield number, Shard(joined(rows) if rows else None, failures)
                    rows, failures = [], []

    def _batches(self, numbers: list[int], batches_left: deque[tuple[int, bool]]) -> Iterator[list[Item]]:
        """Yield the batches of all shards; ``batches_left`` gets the shard of each, and whether it is the last."""
        for number in numbers:
            work = self.job.batches(number)
            for place, items in enumerate(work, start=1):
                batches_left.append((number, place == len(work)))
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
                f"{item.where}: the {name} of image_id {item.image_id} are NaN or infinite as {values.dtype}{advice if name == 'features' else ''}"
            )
    return rows


# The best batch size is measured and then written into params.yaml by hand: a size chosen at every run would change the
# last bits of the features from run to run.
_LARGEST = 256
_PASSES = 3
# The smallest batch with this share of the best rate is chosen.
_NEAR = 0.97
# The search ends after two sizes in a row below this share of the best rate.
_FALLING = 0.9


@dataclass(frozen=True)
class Throughput:
    """rate: images a second of the forward pass alone, the median of three passes."""

    batch_size: int
    rate: float


def find(params: Params, features: str, device: str) -> Iterator[Throughput]:
    """Yield the rates of ``measure`` for the first readable images of the data set. Nothing is written.

    Raises what an extraction raises, InputError when none of the first images can be read."""
    job = plan(params.features[features], params.seed, devices.resolve_device(device))
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
    """Yield the rates at 1, 2, 4, ... images until a size does not fit into memory or larger sizes gain nothing.

    batch: images as read, (B, ...), or a tuple of such arrays."""
    arrays = batch if isinstance(batch, tuple) else (batch,)
    rates: list[Throughput] = []
    size = 1
    while size <= min(len(arrays[0]), _LARGEST):
        seconds = _seconds(forward, tuple(array[:size] for array in arrays))
        if forward.limit is not None:
            return
        rates.append(Throughput(size, size / seconds))
        yield rates[-1]
        best = max(speed.rate for speed in rates)
        if len(rates) > 1 and all(speed.rate < _FALLING * best for speed in rates[-2:]):
            return
        size *= 2


def best(rates: list[Throughput]) -> Throughput:
    """The smallest batch whose rate is near the best."""
    fastest = max(speed.rate for speed in rates)
    return next(speed for speed in rates if speed.rate >= _NEAR * fastest)


def _seconds(forward: Callable[[tuple], Output], part: tuple[np.ndarray, ...]) -> float:
    """The median time of a pass after a first pass, which allocates memory and compiles."""
    forward(part)
    seconds = []
    for _ in range(_PASSES):
        started = time.perf_counter()
        forward(part)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
