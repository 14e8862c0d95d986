"""Ranks of the proposals for each mention of a phrase, and each unique phrase as a class of boxes over all pictures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from vse_pipe.ranking import boxes
from vse_pipe.ranking.scores import Similarity


@dataclass(frozen=True)
class BoxSide:
    """Mentions or proposals, grouped by picture. table: one row for each; pictures: int64, ascending; vectors: in the
    run's space."""

    table: pa.Table
    pictures: np.ndarray
    boxes: Float[Tensor, "rows 4"]
    vectors: Float32[np.ndarray, "rows dim"]

    @classmethod
    def from_table(cls, table: pa.Table, key: str, boxes: np.ndarray, vectors: np.ndarray) -> "BoxSide":
        """key: the column of the picture, by which the rows are sorted; boxes, vectors: in the order of ``table``."""
        pictures = table[key].to_numpy()
        order = np.argsort(pictures, kind="stable")
        return cls(table.take(order), pictures[order], torch.from_numpy(boxes[order]), vectors[order])


@dataclass(frozen=True)
class BoxScene:
    """One picture. place: its position among all; mentions, proposals: its rows in the two sides."""

    place: int
    mentions: slice
    proposals: slice
    truth: Float[Tensor, "mentions 4"]
    boxes: Float[Tensor, "proposals 4"]
    scores: Float[Tensor, "mentions proposals"]


def scenes(mentions: BoxSide, proposals: BoxSide, similarity: Similarity, device: torch.device) -> Iterator[BoxScene]:
    """In the order of ``mentions``. A picture may have no proposal."""
    pictures, first = np.unique(mentions.pictures, return_index=True)
    ends = np.append(first[1:], len(mentions.pictures))
    low, high = (np.searchsorted(proposals.pictures, pictures, side) for side in ("left", "right"))
    phrases, regions = (torch.from_numpy(side.vectors).to(device) for side in (mentions, proposals))
    for place in range(len(pictures)):
        rows, candidates = slice(first[place], ends[place]), slice(low[place], high[place])
        scores = similarity(regions[candidates], phrases[rows]).T.cpu()
        yield BoxScene(place, rows, candidates, mentions.boxes[rows], proposals.boxes[candidates], scores)


@dataclass(frozen=True)
class Classes:
    """The ranking of each class, as far as average precision depends on it.

    finds: the pictures of the boxes that find a true box, best first; class c has starts[c] to starts[c + 1].
    before_pictures, before: pictures and their numbers of boxes ranked after find f - 1 and up to find f, from
    before_starts[f] to before_starts[f + 1]. truths: the pictures of the true boxes; class c has truth_starts[c] to
    truth_starts[c + 1]."""

    starts: Int[np.ndarray, " bounds"]
    finds: Int[np.ndarray, " finds"]
    before_starts: Int[np.ndarray, " spans"]
    before_pictures: Int[np.ndarray, " rows"]
    before: Int[np.ndarray, " rows"]
    truth_starts: Int[np.ndarray, " bounds"]
    truths: Int[np.ndarray, " truths"]

    @classmethod
    def from_boxes(cls, ranked: tuple[np.ndarray, ...], truths: tuple[np.ndarray, ...], count: int) -> "Classes":
        """ranked: class, picture, score and correctness of every box; truths: class and picture of every true box;
        count: of classes."""
        owners, pictures, scores, correct = ranked
        order = np.lexsort((correct, -scores, owners))  # among equal scores wrong boxes first
        owners, pictures, correct = owners[order], pictures[order], correct[order]
        starts = _starts(owners[correct], count)
        find = correct.cumsum() - correct
        counts = find < starts[owners + 1]  # boxes after the last find of a class change nothing
        keys = find[counts] * (pictures.max(initial=0) + 1) + pictures[counts]
        _, first, before = np.unique(keys, return_index=True, return_counts=True)
        spans = _starts(find[counts][first], int(starts[-1]))
        by_class = np.argsort(truths[0], kind="stable")
        true = _starts(truths[0], count), truths[1][by_class]
        return cls(starts, pictures[correct], spans, pictures[counts][first], before, *true)

    def measure(self, weights: Int[np.ndarray, "draws pictures"], eleven: bool) -> Float[np.ndarray, "draws classes"]:
        """The average precision of each class in percent, NaN if a draw has no true box of the class. weights: how
        often each picture counts."""
        # The import of numba takes half a second.
        from vse_pipe.ranking import statistics_kernels

        return 100.0 * statistics_kernels.by_class(weights, *vars(self).values(), eleven)


def classes(
    scenes: Iterable[BoxScene], names: Int[np.ndarray, " mentions"], count: int, threshold: float, nms: float
) -> Classes:
    """names: the class of each mention, below ``count``.

    In each picture the boxes of a class go through non-maximum suppression. A box is correct if its IoU with the true
    box that it overlaps most is at least ``threshold`` and no better box has found that true box (Pascal VOC;
    Everingham et al., IJCV 2010, section 4.2)."""
    ranked, truths = [], []
    for scene in scenes:
        phrases, first, owners = np.unique(names[scene.mentions], return_index=True, return_inverse=True)
        scores = scene.scores[first]
        true, owners = _true_boxes(scene.truth.numpy(), owners)
        truths.append((phrases[owners], np.full(len(owners), scene.place)))
        if scores.shape[1]:
            survives = boxes.surviving(boxes.iou(scene.boxes, scene.boxes), scores, nms).numpy()
            right = _correct(boxes.iou(true, scene.boxes).numpy(), owners, scores.numpy(), survives, threshold)
            rows, columns = np.nonzero(survives)
            place = np.full(len(rows), scene.place)
            ranked.append((phrases[rows], place, scores.numpy()[rows, columns], right[rows, columns]))
    kinds = (np.int64, np.int64, np.float32, np.bool_)
    return Classes.from_boxes(_joined(ranked, kinds), _joined(truths, kinds[:2]), count)


def _true_boxes(truth: np.ndarray, owners: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """The distinct boxes of each class, and the class of each box."""
    unique = np.unique(np.column_stack([owners, truth]), axis=0)
    return torch.from_numpy(unique[:, 1:].copy()), unique[:, 0].astype(np.int64)


def _correct(
    overlap: np.ndarray, owners: np.ndarray, scores: np.ndarray, survives: np.ndarray, threshold: float
) -> np.ndarray:
    """bool (classes, proposals). overlap: (truths, proposals); owners: the class of each truth, ascending."""
    slots = np.arange(len(owners)) - np.searchsorted(owners, owners)
    spread = np.full((len(scores), slots.max() + 1, scores.shape[1]), -1.0)
    spread[owners, slots] = overlap
    most = spread.argmax(axis=1)
    fits = survives & (spread.max(axis=1) >= threshold)
    claims = np.where(fits[owners] & (most[owners] == slots[:, None]), scores[owners], -np.inf)
    best = claims.argmax(axis=1)
    hit = np.isfinite(claims[np.arange(len(owners)), best])
    right = np.zeros_like(survives)
    right[owners[hit], best[hit]] = True
    return right


def _joined(parts: list[tuple], kinds: tuple) -> tuple[np.ndarray, ...]:
    columns = zip(*parts, strict=True) if parts else [()] * len(kinds)
    return tuple(np.concatenate([np.zeros(0, kind), *column]) for column, kind in zip(columns, kinds, strict=True))


def _starts(owners: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.bincount(owners, minlength=count).cumsum()]).astype(np.int64)


Mentions = Float[np.ndarray, " mentions"]


@dataclass(frozen=True)
class Ranks:
    """Columns with a value for each mention. candidates: number of proposals of its picture; correct: number of those
    that overlap its box by the threshold.

    rank: of the first correct candidate, 1 = best, NaN without one; wrong candidates with the same score rank before
    it. bound: the largest IoU of a candidate. best: row of the best candidate among all proposals, -1 without one;
    score, iou: of that candidate."""

    candidates: Int[np.ndarray, " mentions"]
    correct: Int[np.ndarray, " mentions"]
    rank: Mentions
    bound: Mentions
    best: Int[np.ndarray, " mentions"]
    score: Float32[np.ndarray, " mentions"]
    iou: Mentions

    @classmethod
    def from_scene(cls, scene: BoxScene, threshold: float) -> "Ranks":
        count, proposed = scene.scores.shape
        if not proposed:
            undefined, zeros = np.full(count, np.nan), np.zeros(count, np.int64)
            return cls(zeros, zeros, undefined, np.zeros(count), zeros - 1, undefined.astype(np.float32), undefined)
        overlap = boxes.iou(scene.truth, scene.boxes)
        hit = overlap >= threshold
        first = scene.scores.masked_fill(~hit, -torch.inf).amax(dim=1, keepdim=True)
        rank = 1.0 + ((scene.scores > first) | ((scene.scores == first) & ~hit)).sum(dim=1).double()
        best = scene.scores.argmax(dim=1)
        rows = torch.arange(count)
        columns = (
            hit.sum(dim=1),
            rank.masked_fill(~hit.any(dim=1), torch.nan),
            overlap.amax(dim=1),
            best + scene.proposals.start,
            scene.scores[rows, best],
            overlap[rows, best],
        )
        return cls(np.full(count, proposed), *(column.numpy() for column in columns))

    def hits(self, k: int) -> Mentions:
        """1.0 if a correct candidate is among the best k, else 0.0."""
        return (self.rank <= k).astype(np.float64)

    def chance(self, k: int) -> Mentions:
        """The probability of a correct candidate among k random ones: 1 - C(wrong, k) / C(candidates, k)."""
        missed = np.ones(len(self.rank))
        for drawn in range(k):
            missed *= np.maximum(self.candidates - self.correct - drawn, 0) / np.maximum(self.candidates - drawn, 1)
        return np.where(self.correct > 0, 1.0 - missed, 0.0)

    def take(self, rows: np.ndarray) -> "Ranks":
        """rows: mask or positions of mentions."""
        return Ranks(**{name: values[rows] for name, values in vars(self).items()})


def joined(parts: list[Ranks]) -> Ranks:
    return Ranks(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Ranks.__annotations__})
