"""Processes that train as one: which this is, what it takes of the work, and what they tell each other.

Nothing is kept here: torch.distributed knows the group. Where there is none, one process has everything, and every function
gives back what it got. All processes must call the same functions in the same order. A gradient is either *whole*, the same
in each of them, or *partial*: then the sum over them is the gradient.
"""

import contextlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from vse_pipe.core.errors import PipelineError, out_of_memory


class Lost(PipelineError):
    """Another process of the group has ended, or does not answer."""


def rank_count() -> int:
    """Processes of the group; 1 without one."""
    return distributed.get_world_size() if has_group() else 1


def has_group() -> bool:
    """Whether there is a group, be it of one process."""
    return distributed.is_available() and distributed.is_initialized()


def rank() -> int:
    """Of this process, from 0."""
    return distributed.get_rank() if has_group() else 0


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return rank() == 0


@dataclass(frozen=True)
class Share:
    """What each process takes of rows: sizes, one after the other. number: of this process."""

    sizes: tuple[int, ...]
    number: int

    @classmethod
    def of(cls, rows: int) -> "Share":
        """As even as can be, the first processes one more."""
        each, more = divmod(rows, rank_count())
        return cls(tuple(each + (place < more) for place in range(rank_count())), rank())

    @property
    def rows(self) -> slice:
        """Those of this process; the first where it has none, so that all processes run the same layers. ``gather`` drops it."""
        start, size = sum(self.sizes[: self.number]), self.sizes[self.number]
        return slice(start, start + size) if size else slice(0, 1)

    def take(self, whole: Any) -> Any:
        """``rows`` of anything that has rows."""
        return whole if len(self.sizes) == 1 else whole[self.rows]

    def gather(self, own: Tensor, partial: bool = False) -> Tensor:
        """(rows, ...) of all processes from those of each. partial: what the gradient of the result will be, else whole; that
        of ``own`` is partial for what comes before it."""
        if len(self.sizes) == 1 or not sum(self.sizes):
            return own
        return _Gather.apply(own[: self.sizes[self.number]], self, partial)

    def of_parts(self, lengths: Tensor) -> "Share":
        """The same share of things that are rows themselves. lengths: (rows,) how many each row has."""
        return Share(tuple(int(part.sum()) for part in lengths.split(list(self.sizes))), self.number)


def dealt(order: Tensor) -> tuple[Tensor, Share]:
    """Rows in the order in which ``Share.gather`` brings them together, where each process takes every so manieth of
    ``order``: of rows sorted by size all have alike much."""
    hands = [order[place :: rank_count()] for place in range(rank_count())]
    return torch.cat(hands), Share(tuple(map(len, hands)), rank())


def summed(tensor: Tensor) -> Tensor:
    """The tensor itself; its gradient is whole where that of the result is partial."""
    return _Summed.apply(tensor) if rank_count() > 1 else tensor


def total(tensor: Tensor) -> Tensor:
    """The sum over all processes, in place."""
    if rank_count() > 1:
        with _together():
            distributed.all_reduce(tensor)
    return tensor


def of_first(answer: bool) -> bool:
    """What the first process answers: what each reads from a disk by itself need not be the same."""
    return bool(total(torch.tensor(int(answer and is_first()))))


def wait() -> None:
    """For all processes to come here."""
    if rank_count() > 1:
        with _together():
            distributed.barrier()


def require_same_on_all(tensors: Iterable[Tensor], what: str) -> None:
    """Raises PipelineError unless all processes hold the same bits."""
    if rank_count() == 1:
        return
    held = 0
    for tensor in tensors:
        held = zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data, held)
    if len(set(Share.of(rank_count()).gather(torch.tensor([held])).tolist())) > 1:
        raise PipelineError(f"the processes no longer hold the same {what}; are their machines and libraries alike?")


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, own: Tensor, share: Share, partial: bool) -> Tensor:
        ctx.share, ctx.partial = share, partial
        # gloo gathers pieces of one size alone.
        room = own.new_zeros(max(share.sizes), *own.shape[1:])
        room[: len(own)] = own
        pieces = [torch.empty_like(room) for _ in share.sizes]
        with _together():
            distributed.all_gather(pieces, room)
        return torch.cat([piece[:size] for piece, size in zip(pieces, share.sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.partial:
            gradient = total(gradient.clone(memory_format=torch.contiguous_format))
        return gradient.split(list(ctx.share.sizes))[ctx.share.number], None, None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        return total(gradient.clone(memory_format=torch.contiguous_format))


@contextlib.contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        said = next(iter(str(error).splitlines()), "")
        raise Lost(f"another process of this training has ended or does not answer ({said})") from error
