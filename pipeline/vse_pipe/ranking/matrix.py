"""Score matrices in memory or in a temporary file, and sums over strips."""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core import console, workers
from vse_pipe.ranking.fragments import Sides

# Images and captions of a tile, the step of the progress bar; a similarity bounds its own memory.
_TILE = (128, 512)
_MIB = 1 << 20
_CACHE_SHARE = 4


class ScoreMatrix:
    """The scores of all images with all captions under ``similarity``, computed on first use.

    memory: MiB for the whole evaluation, 0 for no limit. A matrix larger than a quarter of it lies in a temporary file,
    which the system removes with the process.
    """

    def __init__(self, images: Sides, captions: Sides, similarity: Callable, memory: int) -> None:
        self.shape = (len(images), len(captions))
        self._images, self._captions, self._similarity, self._memory = images, captions, similarity, memory

    @cached_property
    def matrix(self) -> Float[Tensor, "images captions"]:
        matrix = empty(self.shape, self._memory, self._images.device)
        tiles = [
            (slice(i, min(i + _TILE[0], self.shape[0])), slice(t, min(t + _TILE[1], self.shape[1])))
            for i in range(0, self.shape[0], _TILE[0])
            for t in range(0, self.shape[1], _TILE[1])
        ]
        label = f"scoring {self.shape[0]} images and {self.shape[1]} captions"
        scored = workers.each(partial(map, partial(_tile, self._images, self._captions, self._similarity)), tiles)
        for tile, scores in zip(console.track(tiles, len(tiles), label), scored, strict=True):
            matrix[tile] = scores
        return matrix


def _tile(images: Sides, captions: Sides, similarity: Callable, places: tuple[slice, slice]) -> Tensor:
    return similarity(images[places[0]], captions[places[1]]).detach()


def empty(shape: tuple[int, int], memory: int, device: torch.device) -> Float[Tensor, "images captions"]:
    """Uninitialised scores, in a file where they take more than a quarter of ``memory`` MiB; 0 for no limit."""
    rows, columns = shape
    if memory and rows * columns * 4 * _CACHE_SHARE > memory * _MIB:
        # The map keeps the unnamed file open.
        with tempfile.TemporaryFile() as file:
            # Allocated at once, so that a full disk is an error instead of a SIGBUS.
            os.posix_fallocate(file.fileno(), 0, rows * columns * 4)
            return torch.from_numpy(np.memmap(file, np.float32, "r+", shape=shape))
    return torch.empty(shape, device=device)


def over_rows(work: Callable[[int, int], None], rows: int) -> None:
    """Calls ``work(start, stop)`` for consecutive parts of the rows in parallel. ``work`` must release the
    interpreter's lock (numba's ``nogil``) and treat rows independently."""
    threads = min(torch.get_num_threads(), rows)
    if threads < 2:
        work(0, rows)
        return
    edges = [rows * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The flat positions of many ranges, ``[s, s + 1, ..., s + n - 1]`` for each start and length, joined. starts,
    lengths: int64 (lists,)."""
    ends = lengths.cumsum()
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def per_row(mask: Bool[Tensor, "rows items"]) -> Int[Tensor, " rows"]:
    """The number of true values in each row. numpy counts several times faster than torch on the CPU."""
    if mask.is_cpu:
        return torch.from_numpy(np.count_nonzero(mask.numpy(), axis=1))
    return mask.sum(dim=1)


def total(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """The sum of each column, float64, equal for columns with equal values.

    ``torch.sum`` and ``torch.logsumexp`` over the first dimension add the last few columns in another order than the
    rest. Two items with equal scores would get sums that differ in the last bit, and rounding would decide their order.
    """
    if not (strip.is_cpu and strip.dtype in (torch.float32, torch.float64)):
        return strip.sum(dim=0, dtype=torch.float64)
    from vse_pipe.ranking.kernels import add_up

    values, sums = strip.contiguous().numpy(), np.zeros(strip.shape[1])
    over_rows(lambda start, stop: add_up(values, sums, start, stop), len(sums))
    return torch.from_numpy(sums)


def log_sum_exp(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """``log sum e^x`` of each column, float64: exponents in the precision of the scores, their sum in float64."""
    largest = strip.amax(dim=0)
    # In a column of -inf, -inf - -inf would be NaN.
    finite = largest.nan_to_num(neginf=0.0)
    return total((strip - finite).exp_()).log_().add_(finite.double())
