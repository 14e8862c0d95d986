"""Mentions of phrases and proposed boxes: scores, ranks and average precision by picture."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from vse_pipe.artifacts import regions
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.ranking import boxes
from vse_pipe.ranking.scores import Similarity


@dataclass(frozen=True)
class BoxSide:
    """Mentions or proposals, grouped by picture. table: one row for each; pictures: int64,
    ascending; vectors: in the run's space."""

    table: pa.Table
    pictures: np.ndarray
    boxes: Float[Tensor, "rows 4"]
    vectors: Float32[np.ndarray, "rows dim"]

    @classmethod
    def from_table(cls, table: pa.Table, key: str, vectors: np.ndarray) -> "BoxSide":
        """key: the column of the picture, by which rows are sorted; vectors: in the same order."""
        order = np.argsort(table[key].to_numpy(), kind="stable")
        table = table.take(order)
        return cls(table, table[key].to_numpy(), torch.from_numpy(regions.boxes(table)), vectors[order])


@dataclass(frozen=True)
class BoxScene:
    """One picture. place: its position; mentions, proposals: its rows in the two sides."""

    place: int
    mentions: slice
    proposals: slice
    truth: Float[Tensor, "mentions 4"]
    boxes: Float[Tensor, "proposals 4"]
    scores: Float[Tensor, "mentions proposals"]


def scenes_of(
    mentions: BoxSide, proposals: BoxSide, similarity: Similarity, device: torch.device
) -> Iterator[BoxScene]:
    """In the order of ``mentions``. A picture may have no proposal."""
    pictures, first = np.unique(mentions.pictures, return_index=True)
    ends = np.append(first[1:], len(mentions.pictures))
    low, high = (np.searchsorted(proposals.pictures, pictures, side) for side in ("left", "right"))
    phrases, regions = (torch.from_numpy(side.vectors).to(device) for side in (mentions, proposals))
    for place in range(len(pictures)):
        rows, candidates = slice(first[place], ends[place]), slice(low[place], high[place])
        scores = similarity(regions[candidates], phrases[rows]).T.cpu()
        yield BoxScene(place, rows, candidates, mentions.boxes[rows], proposals.boxes[candidates], scores)


Mentions = Float[np.ndarray, " mentions"]


@dataclass(frozen=True)
class Ranks:
    """Columns with a value for each mention.

    candidates: number of proposals of its picture; correct: of those that overlap its box by the
    threshold; rank: of the first correct one, 1 = best, NaN without one, behind wrong ones of the
    same score; bound: the largest IoU; best: row of the best one, -1 without; score, iou: its."""

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

    def chance(self, k: int) -> Mentions:
        """The probability of a correct one among k random candidates: 1 - C(wrong, k) / C(n, k)."""
        missed = np.ones(len(self.rank))
        for drawn in range(k):
            missed *= np.maximum(self.candidates - self.correct - drawn, 0) / np.maximum(self.candidates - drawn, 1)
        return np.where(self.correct > 0, 1.0 - missed, 0.0)


def joined(parts: list[Ranks]) -> Ranks:
    return Ranks(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Ranks.__annotations__})


def average_precisions(
    scenes: Iterable[BoxScene], names: Int[np.ndarray, " mentions"], options: LocalizeParams
) -> Float[np.ndarray, " classes"]:
    """The average precision of each class in percent. names: the class of each mention, from 0.

    In each picture the boxes of a class go through non-maximum suppression. A box is correct if its
    IoU with the true box that it overlaps most is at least ``threshold`` and no better box has
    found that true box (Pascal VOC; Everingham et al., IJCV 2010, section 4.2). Precision at a
    recall is the best at that recall or a larger one. The average precision is the area under that
    curve, or for ``eleven_point`` its mean at the recalls 0, 0.1, ..., 1 (Everingham et al., IJCV
    2015, section 3.4.1; IJCV 2010, section 4.2)."""
    ranked = [(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))]
    positives = np.zeros(names.max(initial=-1) + 1, np.int64)
    for scene in scenes:
        phrases, first, owners = np.unique(names[scene.mentions], return_index=True, return_inverse=True)
        scores = scene.scores[first]
        distinct = np.unique(np.column_stack([owners, scene.truth.numpy()]), axis=0)
        owners = distinct[:, 0].astype(np.int64)
        positives[phrases] += np.bincount(owners, minlength=len(phrases))
        if scores.shape[1]:
            survives = boxes.surviving(scene.boxes, scores, options.nms).numpy()
            overlap = boxes.iou(torch.from_numpy(distinct[:, 1:].copy()), scene.boxes).numpy()
            right = _correct(overlap, owners, scores.numpy(), survives, options.threshold)
            rows, columns = np.nonzero(survives)
            ranked.append((phrases[rows], scores.numpy()[rows, columns], right[rows, columns]))
    classes, values, finds = map(np.concatenate, zip(*ranked, strict=True))
    order = np.lexsort((finds, -values, classes))  # among equal scores wrong boxes first
    ends = np.searchsorted(classes[order], np.arange(1, len(positives)))
    groups = zip(np.split(finds[order], ends), positives, strict=True)
    eleven = options.average_precision == "eleven_point"
    return np.array([_average_precision(group, count, eleven) for group, count in groups])


def _average_precision(correct: np.ndarray, positives: int, eleven: bool) -> float:
    """correct: of the boxes of a class, best first."""
    places = np.flatnonzero(correct)
    hits = np.arange(1, len(places) + 1)
    best = np.maximum.accumulate((hits / (places + 1))[::-1])[::-1]
    if not eleven:
        return 100.0 * best.sum() / positives
    levels = 10 * hits // positives
    area = (best * np.diff(levels, prepend=0)).sum() + best[:1].sum()
    return 100.0 * area / 11


def _correct(
    overlap: np.ndarray, owners: np.ndarray, scores: np.ndarray, survives: np.ndarray, threshold: float
) -> np.ndarray:
    """bool (classes, proposals). overlap: (truths, proposals); owners: classes, ascending."""
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
