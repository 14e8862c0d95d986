"""Processes that train as one, and work in parts that a pool of processes may do.

Without a group, one process has all rows, and every function returns its argument. All processes
must call the same functions in the same order. A gradient is either *whole*, equal in every process,
or *partial*: then the sum over the processes is the gradient."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from vse_pipe.core.errors import PipelineError, first_line, out_of_memory


class Lost(PipelineError):
    """Another process of the group has ended, or does not answer."""


def rank_count() -> int:
    """The number of processes in the group; 1 without a group."""
    return distributed.get_world_size() if has_group() else 1


def has_group() -> bool:
    """Whether there is a group, even of one process."""
    return distributed.is_available() and distributed.is_initialized()


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if has_group() else 0


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return rank() == 0


@dataclass(frozen=True)
class Share:
    """The rows of each process. sizes: numbers of consecutive rows; number: of this process."""

    sizes: tuple[int, ...]
    number: int

    @classmethod
    def even(cls, rows: int) -> "Share":
        """Equal sizes; the first processes take one row more where rows remain."""
        size, more = divmod(rows, rank_count())
        return cls(tuple(size + (place < more) for place in range(rank_count())), rank())

    @property
    def rows(self) -> slice:
        """The rows of this process. Without rows it takes the first one, so that all processes run
        the same layers; ``gather`` drops it."""
        start, size = sum(self.sizes[: self.number]), self.sizes[self.number]
        return slice(start, start + size) if size else slice(0, 1)

    def take(self, values: Any) -> Any:
        """The rows of this process in any sequence."""
        return values if len(self.sizes) == 1 else values[self.rows]

    def gather(self, part: Tensor) -> Tensor:
        """(rows, ...) of all processes from each process's part, whose gradient is partial where
        that of the result is whole."""
        if len(self.sizes) == 1 or not sum(self.sizes):
            return part
        return _Gather.apply(part[: self.sizes[self.number]], self)

    def of_parts(self, lengths: Tensor) -> "Share":
        """The same share of the parts of the rows. lengths: (rows,) number of parts of each row."""
        return Share(tuple(int(part.sum()) for part in lengths.split(list(self.sizes))), self.number)


def dealt(order: Tensor) -> tuple[Tensor, Share]:
    """Every process takes every n-th row of ``order``, so that rows sorted by size are shared
    equally. Returns the rows in the order of ``Share.gather``, and the share."""
    hands = [order[place :: rank_count()] for place in range(rank_count())]
    return torch.cat(hands), Share(tuple(map(len, hands)), rank())


def summed(tensor: Tensor) -> Tensor:
    """The tensor. Its gradient is whole where the gradient of the result is partial."""
    if rank_count() > 1 and tensor.requires_grad:
        tensor = tensor.view_as(tensor)
        tensor.register_hook(lambda gradient: total(gradient.clone(memory_format=torch.contiguous_format)))
    return tensor


def total(tensor: Tensor) -> Tensor:
    """The sum over all processes, in place."""
    if rank_count() > 1:
        with _together():
            distributed.all_reduce(tensor)
    return tensor


def first_answer(answer: bool) -> bool:
    """The answer of the first process, because others may see its files later."""
    return bool(total(torch.tensor(int(answer and is_first()))))


def wait() -> None:
    """Waits until all processes call it."""
    if rank_count() > 1:
        with _together():
            distributed.barrier()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part: Tensor, share: Share) -> Tensor:
        ctx.share = share
        # gloo gathers only pieces of equal size.
        room = part.new_zeros(max(share.sizes), *part.shape[1:])
        room[: len(part)] = part
        pieces = [torch.empty_like(room) for _ in share.sizes]
        with _together():
            distributed.all_gather(pieces, room)
        return torch.cat([piece[:size] for piece, size in zip(pieces, share.sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.split(list(ctx.share.sizes))[ctx.share.number], None


@contextlib.contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        raise Lost(f"another process of this training has ended or does not answer ({first_line(error)})") from error
