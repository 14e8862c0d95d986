"""Every unique phrase as a class of boxes, ranked over all pictures that contain it."""

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
    """Mentions or proposals, those of one picture together. table: a row each, with the box; pictures: int64, ascending;
    vectors: of the run's space."""

    table: pa.Table
    pictures: np.ndarray
    boxes: Float[Tensor, "rows 4"]
    vectors: Float32[np.ndarray, "rows dim"]

    @classmethod
    def of(cls, table: pa.Table, key: str, boxes: np.ndarray, vectors: np.ndarray) -> "BoxSide":
        """key: the column of the picture; boxes, vectors: in the rows of ``table``, which are put in order of it."""
        pictures = table[key].to_numpy()
        order = np.argsort(pictures, kind="stable")
        return cls(table.take(order), pictures[order], torch.from_numpy(boxes[order]), vectors[order])


@dataclass(frozen=True)
class BoxScene:
    """One picture. mentions, proposals: rows of the two sides; place: of the picture among all."""

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
        here, there = slice(first[place], ends[place]), slice(low[place], high[place])
        scores = similarity(regions[there], phrases[here]).T.cpu()
        yield BoxScene(place, here, there, mentions.boxes[here], proposals.boxes[there], scores)


@dataclass(frozen=True)
class Classes:
    """The ranking of each class, as far as average precision depends on it.

    finds: the pictures of the boxes that find a true one, best first, those of class c from starts[c] to starts[c + 1].
    before: how many boxes of which picture stand between find f and the one before it, f itself included, from
    before_starts[f] to before_starts[f + 1]. truths: the pictures of the true boxes, of class c from truth_starts[c] on.
    """

    starts: Int[np.ndarray, " bounds"]
    finds: Int[np.ndarray, " finds"]
    before_starts: Int[np.ndarray, " spans"]
    before_pictures: Int[np.ndarray, " rows"]
    before: Int[np.ndarray, " rows"]
    truth_starts: Int[np.ndarray, " bounds"]
    truths: Int[np.ndarray, " truths"]

    @classmethod
    def of(cls, ranked: tuple[np.ndarray, ...], truths: tuple[np.ndarray, ...], count: int) -> "Classes":
        """ranked: class, picture, score and correctness of every box; truths: class and picture of every true box;
        count: of classes."""
        owners, pictures, scores, correct = ranked
        order = np.lexsort((correct, -scores, owners))  # of equal scores the wrong ones first
        owners, pictures, correct = owners[order], pictures[order], correct[order]
        starts = _starts(owners[correct], count)
        find = correct.cumsum() - correct
        counts = find < starts[owners + 1]  # what follows the last find of a class changes nothing
        keys = find[counts] * (pictures.max(initial=0) + 1) + pictures[counts]
        _, first, before = np.unique(keys, return_index=True, return_counts=True)
        spans = _starts(find[counts][first], int(starts[-1]))
        by_class = np.argsort(truths[0], kind="stable")
        true = _starts(truths[0], count), truths[1][by_class]
        return cls(starts, pictures[correct], spans, pictures[counts][first], before, *true)

    def measure(self, weights: Int[np.ndarray, "draws pictures"], eleven: bool) -> Float[np.ndarray, "draws classes"]:
        """The average precision of each class in percent, under each row of weights: how often each picture counts. NaN
        where a draw has none of the class."""
        # numba takes half a second to import, which commands that only read params.yaml should not pay.
        from vse_pipe.ranking import statistics_kernels

        return 100.0 * statistics_kernels.by_class(weights, *vars(self).values(), eleven)


def classes(
    scenes: Iterable[BoxScene], names: Int[np.ndarray, " mentions"], count: int, threshold: float, nms: float
) -> Classes:
    """names: the class of each mention, below ``count``.

    In each picture the boxes of a class go through non-maximum suppression. A box is correct when its IoU with the true
    box that it overlaps most is ``threshold`` at least and no better box has found that one: the rule of Pascal VOC
    (Everingham et al., IJCV 2010, section 4.2).
    """
    ranked, truths = [], []
    for scene in scenes:
        here, first, owners = np.unique(names[scene.mentions], return_index=True, return_inverse=True)
        scores = scene.scores[first]
        true, owners = _true_boxes(scene.truth.numpy(), owners)
        truths.append((here[owners], np.full(len(owners), scene.place)))
        if scores.shape[1]:
            stays = boxes.surviving(boxes.iou(scene.boxes, scene.boxes), scores, nms).numpy()
            right = _correct(boxes.iou(true, scene.boxes).numpy(), owners, scores.numpy(), stays, threshold)
            rows, columns = np.nonzero(stays)
            place = np.full(len(rows), scene.place)
            ranked.append((here[rows], place, scores.numpy()[rows, columns], right[rows, columns]))
    kinds = (np.int64, np.int64, np.float32, np.bool_)
    return Classes.of(_joined(ranked, kinds), _joined(truths, kinds[:2]), count)


def _true_boxes(truth: np.ndarray, owners: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Each box of a class once, however often it is mentioned, and the class of each."""
    unique = np.unique(np.column_stack([owners, truth]), axis=0)
    return torch.from_numpy(unique[:, 1:].copy()), unique[:, 0].astype(np.int64)


def _correct(
    overlap: np.ndarray, owners: np.ndarray, scores: np.ndarray, stays: np.ndarray, threshold: float
) -> np.ndarray:
    """bool (classes, proposals). overlap: (truths, proposals); owners: the class of each truth, ascending."""
    slots = np.arange(len(owners)) - np.searchsorted(owners, owners)
    spread = np.full((len(scores), slots.max() + 1, scores.shape[1]), -1.0)
    spread[owners, slots] = overlap
    most = spread.argmax(axis=1)
    fits = stays & (spread.max(axis=1) >= threshold)
    claims = np.where(fits[owners] & (most[owners] == slots[:, None]), scores[owners], -np.inf)
    best = claims.argmax(axis=1)
    found = np.isfinite(claims[np.arange(len(owners)), best])
    right = np.zeros_like(stays)
    right[owners[found], best[found]] = True
    return right


def _joined(parts: list[tuple], kinds: tuple) -> tuple[np.ndarray, ...]:
    columns = zip(*parts, strict=True) if parts else [()] * len(kinds)
    return tuple(np.concatenate([np.zeros(0, kind), *column]) for column, kind in zip(columns, kinds, strict=True))


def _starts(owners: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.bincount(owners, minlength=count).cumsum()]).astype(np.int64)


Mentions = Float[np.ndarray, " mentions"]


@dataclass(frozen=True)
class Ranks:
    """By mention. candidates: proposals of its picture; correct: of these, those that overlap its box by the threshold.

    rank: 1 = best, of the first correct one, NaN: none is; a wrong one with the same score stands before it. bound: the
    largest IoU of a candidate. best: its row among the proposals, -1 where there is none; score and iou are its own.
    """

    candidates: Int[np.ndarray, " mentions"]
    correct: Int[np.ndarray, " mentions"]
    rank: Mentions
    bound: Mentions
    best: Int[np.ndarray, " mentions"]
    score: Float32[np.ndarray, " mentions"]
    iou: Mentions

    @classmethod
    def of(cls, scene: BoxScene, threshold: float) -> "Ranks":
        """Those of one picture."""
        count, proposed = scene.scores.shape
        if not proposed:
            nothing, none = np.full(count, np.nan), np.zeros(count, np.int64)
            return cls(none, none, nothing, np.zeros(count), none - 1, nothing.astype(np.float32), nothing)
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
        """1.0 where a correct candidate is among the best k."""
        return (self.rank <= k).astype(np.float64)

    def chance(self, k: int) -> Mentions:
        """How likely a correct candidate is among k that are drawn at random: 1 - C(wrong, k) / C(candidates, k)."""
        missed = np.ones(len(self.rank))
        for drawn in range(k):
            missed *= np.maximum(self.candidates - self.correct - drawn, 0) / np.maximum(self.candidates - drawn, 1)
        return np.where(self.correct > 0, 1.0 - missed, 0.0)

    def take(self, chosen: np.ndarray) -> "Ranks":
        """Of some mentions: a mask or places."""
        return Ranks(**{name: values[chosen] for name, values in vars(self).items()})


def joined(parts: list[Ranks]) -> Ranks:
    return Ranks(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Ranks.__annotations__})
