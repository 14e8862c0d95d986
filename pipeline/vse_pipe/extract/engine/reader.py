"""Batches of decoded images from worker threads: Pillow and numpy release the interpreter lock while they work."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from vse_pipe.artifacts.features import UNREADABLE
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.extract.engine.backbone import Failure
from vse_pipe.pictures.images import Item

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
