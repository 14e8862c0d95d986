"""Every unique phrase as a class of boxes, ranked over all pictures that contain it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.localize.engine.scenes import BoxScene
from vse_pipe.ranking import boxes


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
            stays = boxes.kept(boxes.iou(scene.boxes, scene.boxes), scores, nms).numpy()
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
