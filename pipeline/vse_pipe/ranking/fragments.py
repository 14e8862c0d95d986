"""Sides that similarities compare, similarities, and score matrices in memory or a file."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeGuard

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import SIMILARITIES

EPS = 1e-8


@dataclass(frozen=True)
class Words:
    """vectors: (words, dim), caption after caption; lengths: (captions,), number of words of each
    caption, 1 at least, on the CPU."""

    vectors: Float[Tensor, "words dim"]
    lengths: Int[Tensor, " captions"]

    @classmethod
    def from_padded(cls, padded: Float[Tensor, "captions length dim"], lengths: Int[Tensor, " captions"]) -> "Words":
        """From (captions, L, dim); values after the end of a caption are ignored."""
        inside = torch.arange(padded.shape[1])[None] < lengths[:, None]
        places = inside.flatten().nonzero()[:, 0]  # a mask on a GPU would have to be waited for
        return cls(padded.flatten(0, 1).index_select(0, places.to(padded.device, non_blocking=True)), lengths)

    @classmethod
    def joined(cls, parts: Sequence["Words"]) -> "Words":
        """The captions of all parts, in order."""
        return cls(torch.cat([part.vectors for part in parts]), torch.cat([part.lengths for part in parts]))

    def padded(self) -> Float[Tensor, "captions length dim"]:
        """(captions, longest, dim), zero past the end."""
        return torch.nn.utils.rnn.pad_sequence(self.pieces(), batch_first=True)

    def pieces(self) -> list[Tensor]:
        """The words (length, dim) of each caption."""
        return list(self.vectors.split(self.lengths.tolist()))

    @cached_property
    def starts(self) -> Int[Tensor, " ends"]:
        """The start of each caption in ``vectors``, and the end of the last; on the CPU."""
        return torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths.cumsum(0)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, captions: slice) -> "Words":
        """Consecutive captions; a view."""
        first, last, _ = captions.indices(len(self))
        return Words(self.vectors[self.starts[first] : self.starts[last]], self.lengths[first:last])

    def take(self, captions: Int[Tensor, " chosen"]) -> "Words":
        """The captions at these places, in this order; a copy."""
        captions = captions.cpu()
        lengths = self.lengths[captions]
        ends = lengths.cumsum(0)
        places = torch.arange(int(lengths.sum())) + (self.starts[captions] - (ends - lengths)).repeat_interleave(
            lengths
        )
        return Words(self.vectors[places.to(self.vectors.device, non_blocking=True)], lengths)

    @property
    def device(self) -> torch.device:
        return self.vectors.device

    def to(self, device: torch.device) -> "Words":
        return Words(self.vectors.to(device), self.lengths)

    def detach(self) -> "Words":
        return Words(self.vectors.detach(), self.lengths)

    def float(self) -> "Words":
        return Words(self.vectors.float(), self.lengths)


@dataclass(frozen=True)
class Several:
    """n images or captions under several models, one part each. weights: sum 1, or None."""

    parts: tuple["Sides", ...]
    weights: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: slice) -> "Several":
        return replace(self, parts=tuple(part[rows] for part in self.parts))

    @property
    def device(self) -> torch.device:
        return self.parts[0].device


# One side: (n, dim) vectors, (n, R, dim) regions, the words of n captions, or the same under
# several models. A model without vectors, such as BM25, has integers (n, 1), which only its own
# similarity understands.
Sides = Tensor | Words | Several


@dataclass(frozen=True)
class MeanScore:
    """The mean of the models' scores, by the sides' weights, as SCAN and SGRAF."""

    similarities: Sequence[Callable]

    def __call__(self, images: Several, texts: Several) -> Float[Tensor, "images texts"]:
        sides = zip(self.similarities, images.parts, texts.parts, strict=True)
        scores = [score(image, text) for score, image, text in sides]
        return torch.stack(scores).mean(dim=0) if images.weights is None else weighted(scores, images.weights)


def weighted(scores: Iterable[Float[Tensor, "*cells"]], weights: Sequence[float]) -> Float[Tensor, "*cells"]:
    """The weighted sum; at most two of the scores are in memory at once."""
    total = None
    for part, weight in zip(scores, weights, strict=True):
        total = weight * part if total is None else total.add_(part, alpha=weight)
    assert total is not None
    return total


def plain(side: Sides) -> TypeGuard[Tensor]:
    """Whether each row is one vector."""
    return isinstance(side, Tensor) and side.ndim == 2 and side.is_floating_point()


def take(side: Sides, rows: Int[Tensor, " chosen"]) -> Sides:
    """The images or captions at these places."""
    if isinstance(side, Several):
        return replace(side, parts=tuple(take(part, rows) for part in side.parts))
    return side.take(rows) if isinstance(side, Words) else side[rows.to(side.device)]


def pooled(side: Sides) -> Float[Tensor, "rows dim"]:
    """One unit vector for each image or caption: the mean of its fragments.

    Criteria that compare items with items use it where the model compares only images with
    captions. Vectors stay as they are. Several models' vectors are concatenated, so that their
    inner product is the weighted mean."""
    if isinstance(side, Several):
        vectors = [place for place, part in enumerate(side.parts) if not _numbers(part)]
        parts = [pooled(side.parts[place]) for place in vectors]
        if side.weights is None:
            return torch.cat(parts, dim=1) / len(parts) ** 0.5
        return torch.cat([part * side.weights[place] ** 0.5 for place, part in zip(vectors, parts, strict=True)], dim=1)
    if _numbers(side):
        raise InputError("bm25 has no vectors, and this criterion compares items of one side; give a model first")
    if plain(side):
        return side
    if isinstance(side, Words):
        owners = torch.arange(len(side)).repeat_interleave(side.lengths).to(side.device)
        sums = side.vectors.new_zeros(len(side), side.vectors.shape[1]).index_add_(0, owners, side.vectors)
    else:
        sums = side.sum(dim=1)
    return torch.nn.functional.normalize(sums, dim=1)


def l2norm_eps(vectors: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
    """``x / (|x| + 1e-8)``, so zero rows stay zero: words and regions of local models, by authors."""
    return vectors / (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) + EPS)


def _numbers(side: Sides) -> bool:
    """Whether the model has no vectors."""
    return isinstance(side, Tensor) and not side.is_floating_point()


def blocks(count: int, size: int) -> list[slice]:
    """Consecutive slices of ``count`` rows."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The flat positions of many ranges, ``[s, s + 1, ..., s + n - 1]`` for each start and length,
    joined. starts, lengths: int64 (lists,)."""
    ends = lengths.cumsum()
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def column_sums(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """The sum of each column, float64, equal for columns with equal values.

    ``torch.sum`` and ``torch.logsumexp`` over the first dimension add the last few columns in
    another order than the rest, numpy adds row after row. Two items with equal scores would get
    sums that differ in the last bit, and rounding would decide their order."""
    if not strip.is_cpu:
        return strip.sum(dim=0, dtype=torch.float64)
    return torch.from_numpy(np.add.reduce(strip.numpy(), axis=0, dtype=np.float64))


def column_log_sums(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """``log sum e^x`` of each column, float64: exponents as the scores are, a float64 sum."""
    largest = strip.amax(dim=0)
    # In a column of -inf, -inf - -inf would be NaN.
    finite = largest.nan_to_num(neginf=0.0)
    return column_sums((strip - finite).exp_()).log_().add_(finite.double())


class Similarity(nn.Module):
    """(images, dim), (texts, dim), or (images, R, dim) and ``Words``, to (images, texts)."""

    def __init__(self, member: Member, network: nn.Module | None = None) -> None:
        super().__init__()
        self.member, self.network = member, network
        self.fragments = SIMILARITIES.traits(member.name).fragments

    def forward(self, images: Tensor, texts: Tensor | Words) -> Float[Tensor, "images texts"]:
        return SIMILARITIES.load(self.member.name).score(images, texts, *self._learned())

    def _learned(self) -> tuple:
        return (self.member.params,) if self.network is None else (self.member.params, self.network)


def build_similarity(member: Member, dim: int, regions: int, rng: torch.Generator) -> Similarity:
    """dim: of a fragment; regions: of an image. Learned weights are drawn from ``rng``."""
    if not SIMILARITIES.traits(member.name).learns:
        return Similarity(member)
    return Similarity(member, SIMILARITIES.load(member.name).network(member.params, dim, regions, rng))


# Cormack et al.'s constant, which limits the weight of the first places.
RRF_K = 60


@dataclass(frozen=True)
class Fused:
    """Several models whose ranks are joined by reciprocal rank fusion: ``1 / (60 + rank)`` of each
    item in its row, where the best has rank 1. ``Scores.from_sides`` calls ``combine`` query by
    query, in either direction.

    Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009. The paper leaves ties open;
    here equal scores all get the best rank."""

    similarities: Sequence[Callable]

    def combine(self, weights: Sequence[float] | None, strips: Iterable[Tensor]) -> Tensor:
        """The models' strips as one; weights: None for the plain mean. Raises InputError on scores
        that are not finite."""
        shares = weights or [1 / len(self.similarities)] * len(self.similarities)
        return weighted(map(reciprocal_ranks, strips), shares)


def reciprocal_ranks(scores: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
    must_be_finite(scores)
    return 1.0 / (RRF_K + best_tied_ranks(scores)).to(scores)


def best_tied_ranks(scores: Float[Tensor, "rows items"]) -> Int[Tensor, "rows items"]:
    """1 plus the number of items in the row that score higher; int32."""
    lower = torch.searchsorted(scores.sort(dim=1).values, scores.contiguous(), right=True, out_int32=True)
    return scores.shape[1] + 1 - lower


def must_be_finite(scores: Tensor) -> None:
    """Raises InputError for scores that are not finite, which ranks would hide."""
    if not bool(scores.isfinite().all()):
        raise InputError("a model of the ensemble gives scores that are not finite; embed its run again")
