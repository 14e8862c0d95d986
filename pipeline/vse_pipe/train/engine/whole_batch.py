"""What an encoder draws or normalises for the whole batch, where a process encodes some of its rows.

Each process draws the numbers of all rows, as one process would, and keeps those of its own, so dropout leaves out the same
whatever their number; batch normalisation gathers the rows. Encoders are written for one process and know nothing of it.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.overrides import TorchFunctionMode

from vse_pipe.core.errors import UsageError
from vse_pipe.core.processes import Share

_share: ContextVar[Share | None] = ContextVar("share", default=None)


@contextlib.contextmanager
def rows(share: Share) -> Iterator[None]:
    """For the forward pass of the rows of ``share``: those of this process."""
    if len(share.sizes) == 1:
        yield
        return
    held = _share.set(share)
    try:
        with _OfTheWhole():
            yield
    finally:
        _share.reset(held)


def count(vectors: Tensor) -> int:
    """Rows of the whole batch of which ``vectors`` are some."""
    share = _share.get()
    return len(vectors) if share is None else sum(share.sizes)


def of_tokens(dropout: nn.Dropout, packed: PackedSequence, data: Tensor) -> Tensor:
    """``dropout`` of (tokens, dim) data in the order of ``packed``, which is another one in the whole batch."""
    share = _share.get()
    if share is None or not dropout.training or dropout.p == 0:
        return dropout(data)
    marks = PackedSequence(torch.zeros(len(data), device=data.device), *packed[1:])
    lengths = pad_packed_sequence(marks, batch_first=True)[1]
    everybody = share.gather(lengths)
    tokens = torch.arange(len(everybody) * int(everybody.max())).view(len(everybody), -1)
    placed, own = (
        pack_padded_sequence(tokens[chosen], size, batch_first=True, enforce_sorted=False).data
        for chosen, size in ((slice(None), everybody), (share.rows, lengths))
    )
    place = torch.empty(tokens.numel(), dtype=torch.int64).scatter_(0, placed, torch.arange(len(placed)))
    held = _share.set(None)
    try:
        kept = dropout(data.new_ones(len(placed), data.shape[1]))
    finally:
        _share.reset(held)
    return data * kept[place[own].to(data.device)]


class _OfTheWhole(TorchFunctionMode):
    """Takes the place of functions that draw a number for each row, or look at all rows."""

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        instead, share = _INSTEAD.get(func), _share.get()
        if instead is None or share is None:
            return func(*args, **(kwargs or {}))
        return instead(share, *args, **(kwargs or {}))


def _spread(share: Share, rows: int, draw: Callable[[int], Tensor]) -> Tensor:
    """What ``draw`` gives for the whole batch, cut to the rows of this process. rows: how many these are here, a multiple of
    those of the share where an image has several crops. Raises UsageError where they are none: it is not known what is drawn."""
    own = share.rows
    each, left = divmod(rows, own.stop - own.start)
    if left:
        raise UsageError(
            f"a layer draws random numbers for {rows} rows where {own.stop - own.start} are encoded, which several processes cannot "
            "do as one does; set train.processes to 1"
        )
    return draw(each * sum(share.sizes))[each * own.start : each * own.stop]


def _rand(share: Share, size: torch.Size, **options: Any) -> Tensor:
    return _spread(share, size[0], lambda rows: torch.rand(rows, *size[1:], **options))


def _rand_like(share: Share, like: Tensor) -> Tensor:
    return _spread(share, len(like), lambda rows: torch.rand_like(like.new_empty(rows, *like.shape[1:])))


def _dropout(share: Share, given: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return given
    return given * _spread(
        share, len(given), lambda rows: functional.dropout(given.new_ones(rows, *given.shape[1:]), p)
    )


def _bernoulli(share: Share, given: Tensor, *p: Any, **options: Any) -> Tensor:
    """In place, as layers that leave out whole branches draw: stochastic_depth of torchvision, drop_path of timm."""
    return given.copy_(
        _spread(share, len(given), lambda rows: given.new_empty(rows, *given.shape[1:]).bernoulli_(*p, **options))
    )


def _batch_norm(share: Share, given: Tensor, *running: Any, **options: Any) -> Tensor:
    if not options["training"]:
        return functional.batch_norm(given, *running, **options)
    own = share.rows
    each = len(given) // (own.stop - own.start)
    whole = Share(tuple(each * size for size in share.sizes), share.number).gather(given, partial=True)
    return functional.batch_norm(whole, *running, **options)[each * own.start : each * own.stop]


_INSTEAD: dict[Callable, Callable[..., Tensor]] = {
    torch.rand: _rand,
    torch.rand_like: _rand_like,
    functional.dropout: _dropout,
    Tensor.bernoulli_: _bernoulli,
    functional.batch_norm: _batch_norm,
}
