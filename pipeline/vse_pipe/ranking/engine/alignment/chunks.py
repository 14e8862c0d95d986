"""Captions in portions, and those in chunks of equal length: batches without padding, memory that does not grow with them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vse_pipe.core import processes
from vse_pipe.ranking.engine.words import Words

# Products of a region and a word in a portion: 64 MiB of float32, one matrix product.
PORTION = 1 << 24
# The same in a chunk: near what a core's cache holds.
CHUNK = 1 << 20
# Images compared at once where nothing ties images together.
IMAGES = 128
# Bytes that a batch may keep for the way back; the portions beyond are computed twice.
KEPT = 5 << 28


@dataclass(frozen=True)
class Portion:
    """vectors: (words, dim) of captions sorted by length; shapes: (captions, L) of its chunks, one length each."""

    vectors: Float[Tensor, "words dim"]
    shapes: list[tuple[int, int]]

    @property
    def sizes(self) -> list[int]:
        """Words of each chunk."""
        return [count * length for count, length in self.shapes]

    def chunks(self, tensor: Tensor, axis: int) -> Iterator[Tensor]:
        """Pieces of a tensor whose ``axis`` are the words; in them it is two: captions and L."""
        for piece, shape in zip(tensor.split(self.sizes, dim=axis), self.shapes, strict=True):
            yield piece.unflatten(axis, shape)


def over_captions(
    part: Callable[..., tuple[Tensor, ...]], words: Words, rows: int, kept: int, beside: tuple[Tensor, ...] = ()
) -> tuple[Tensor, ...]:
    """What ``part(portion)`` gives, captions along the last axis, in the order of ``words``.

    rows: regions of all images; a portion has at most ``PORTION / rows`` words or one caption, its chunks
    ``CHUNK / rows``. kept: bytes that autograd keeps for one word; a portion keeps a quarter of ``KEPT`` at most, and those
    beyond ``KEPT`` are computed again on the way back, so there ``part`` must not draw random numbers; 0: none is.
    beside: tensors with a row a caption, whose rows ``part`` gets after the portion. Processes that train as one share the
    captions where some bytes are kept; else, where ``part`` may draw random numbers, each does all.
    """
    order, share = words.lengths.argsort(stable=True), processes.Share((len(words),), 0)
    if kept and len(words):
        order, share = processes.dealt(order)
    own = share.take(order)
    words, places = words.take(own), own.to(words.device)
    beside = tuple(tensor.index_select(0, places) for tensor in beside)
    found, so_far = [], 0
    at_once = max(1, min(PORTION // rows, KEPT // 4 // max(1, kept)))
    for captions in _portions(words.lengths.tolist(), at_once):
        chosen = words[captions]
        shapes = _shapes(chosen, max(1, CHUNK // rows))
        so_far += kept * len(chosen.vectors)
        call = _again if torch.is_grad_enabled() and so_far > KEPT else _once
        found.append(call(part, shapes, chosen.vectors, *(tensor[captions] for tensor in beside)))
    back = order.to(words.device).argsort()
    return tuple(_in_order(pieces, share, back) for pieces in zip(*found, strict=True))


def over_images(
    score: Callable[[Tensor], Tensor], images: Float[Tensor, "images regions dim"]
) -> Float[Tensor, "images captions"]:
    """``score`` of blocks of images, one below the other."""
    if len(images) <= IMAGES:
        return score(images)
    return torch.cat([score(block) for block in images.split(IMAGES)])


def _once(part, shapes, vectors, *beside) -> tuple[Tensor, ...]:
    return part(Portion(vectors, shapes), *beside)


def _again(part, shapes, vectors, *beside) -> tuple[Tensor, ...]:
    return checkpoint(_once, part, shapes, vectors, *beside, use_reentrant=False, preserve_rng_state=False)


def _portions(lengths: list[int], at_once: int) -> Iterator[slice]:
    """Consecutive captions of at most ``at_once`` words together, or one."""
    start = total = 0
    for place, length in enumerate(lengths):
        if total + length > at_once and place > start:
            yield slice(start, place)
            start, total = place, 0
        total += length
    yield slice(start, len(lengths))


def _shapes(words: Words, at_once: int) -> list[tuple[int, int]]:
    """Captions sorted by length, in equal pieces of one length with at most ``at_once`` words, or one caption."""
    lengths, counts = words.lengths.unique_consecutive(return_counts=True)
    shapes = []
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        pieces = min(count, -(-count * length // at_once))
        step = -(-count // pieces)
        shapes += [(min(step, count - start), length) for start in range(0, count, step)]
    return shapes


def _in_order(pieces: tuple[Tensor, ...], share: processes.Share, back: Tensor) -> Tensor:
    whole = torch.cat(pieces, dim=-1)
    if len(share.sizes) > 1:
        whole = share.gather(whole.movedim(-1, 0)).movedim(0, -1)
    return whole.index_select(-1, back) if whole.shape[-1] else whole
