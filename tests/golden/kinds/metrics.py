"""Figures of rankings, ties, and overlaps of boxes.

The last bits of a float32 product depend on how it was blocked, so an item within ``_CLOSE`` of the best correct one
may stand on either side of it. Each query's rank may differ by the number of such items, and each figure by what that
does to it; without such items everything must agree.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from tests.golden.compare import Result, Vectors, compare, exact
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.boxes import iou, surviving
from vse_pipe.ranking.evaluation import Outcome
from vse_pipe.ranking.metrics import recall
from vse_pipe.ranking.metrics.recall import Truth, best_ranks
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import top_k

_CLOSE = 1e-6
_ROUNDING = 1e-9
_RECALLS = slice(0, 3)
_RECALLS_OF_TEN = [0, 1, 2, 5, 6, 7]


def _ranking(arrays: Vectors, similarity: str = "cosine") -> list[Result]:
    """HAL's evaluation.i2t and t2i on one set of images with the same number of captions each."""
    directions = dict(zip(("i2t", "t2i"), _directions(arrays["images"], arrays["captions"], similarity), strict=True))
    results = []
    for name, direction in directions.items():
        ranks = direction.outcome.ranks
        results += [
            _least_to_spare(name, direction.figures(), arrays[name], direction.leeway()),
            _least_to_spare(f"{name}_ranks", ranks, arrays[f"{name}_ranks"], direction.unclear),
        ]
        if f"{name}_top1" in arrays:
            results.append(_first(f"{name}_top1", direction, arrays[f"{name}_top1"]))
    if "rsum" in arrays:
        rsum = sum(direction.figures()[_RECALLS].sum() for direction in directions.values())
        leeway = sum(direction.leeway()[_RECALLS].sum() for direction in directions.values())
        results.append(_least_to_spare("rsum", rsum, arrays["rsum"], leeway))
    return results


check_metrics_1k = _ranking
check_metrics_order = partial(_ranking, similarity="order")


def check_metrics_5fold(arrays: Vectors) -> list[Result]:
    """HAL's evaluation on consecutive folds, their mean, and all images at once."""
    images, captions = arrays["images"], arrays["captions"]
    count = len(arrays["per_fold"])
    folds = zip(np.split(images, count), np.split(captions, count), strict=True)
    figures, leeway = (np.array(part) for part in zip(*[_ten(*fold) for fold in folds], strict=True))
    mean, mean_leeway = figures.mean(axis=0), leeway.mean(axis=0)
    rsum, rsum_leeway = mean[_RECALLS_OF_TEN].sum(), mean_leeway[_RECALLS_OF_TEN].sum()
    full, full_leeway = _ten(images, captions)
    return [
        _least_to_spare("per_fold", figures, arrays["per_fold"], leeway),
        _least_to_spare("mean", mean, arrays["mean"], mean_leeway),
        _least_to_spare("rsum_mean", rsum, arrays["rsum_mean"], rsum_leeway),
        _least_to_spare("full_5k", full, arrays["full_5k"], full_leeway),
    ]


def check_metrics_ties(arrays: Vectors) -> list[Result]:
    """0-based ranks of the best correct item when scores tie, under three policies."""
    scores = torch.from_numpy(arrays["X"])
    truth = Truth.listed(list(arrays["gt"]), scores.shape[1])
    results = [
        exact(ties, best_ranks(scores, slice(0, len(scores)), truth, ties), arrays[ties])
        for ties in ("optimistic", "pessimistic")
    ]
    # Equal scores by descending column: top_k of the mirror image.
    items = scores.shape[1]
    columns = items - 1 - top_k(scores.flip(1), items)[1].numpy()
    rows = np.repeat(np.arange(len(scores)), items)
    ranks = truth.holds(rows, columns.ravel()).reshape(columns.shape).argmax(axis=1)
    return [*results, exact("stable_reversed", ranks, arrays["stable_reversed"])]


def check_boxes_iou_nms(arrays: Vectors) -> list[Result]:
    """Overlaps of boxes and what non-maximum suppression leaves, corners counted in ("plus1") and not ("plain")."""
    boxes, scores = torch.tensor(arrays["boxes"]), torch.tensor(arrays["scores"])
    # Without the last pixel that ours counts in, boxes in continuous coordinates have the same width here.
    corners = {"plus1": boxes, "plain": boxes - torch.tensor([0.0, 0.0, 1.0, 1.0])}
    best = scores.argsort(descending=True, stable=True)
    results = [compare("iou_plus1", iou(boxes, boxes), arrays["iou_plus1"], 1e-12)]
    for name in sorted(arrays):
        if name.startswith("nms_"):
            _, kind, tenths = name.split("_")
            stays = surviving(iou(corners[kind], corners[kind]), scores[None], int(tenths) / 10)[0]
            results.append(exact(name, best[stays[best]], arrays[name]))
    return results


@dataclass(frozen=True)
class _Direction:
    """The outcome of a direction, its scores, and per query the number of wrong items too close to call."""

    outcome: Outcome
    scores: Scores
    unclear: np.ndarray

    def figures(self) -> np.ndarray:
        """R@1, R@5, R@10, Med r, Mean r."""
        return _figures(self.outcome.ranks)

    def leeway(self) -> np.ndarray:
        """How far each figure may be off."""
        ranks = self.outcome.ranks
        return np.abs(_figures((ranks - self.unclear).clip(0)) - _figures(ranks + self.unclear)) + _ROUNDING


def _directions(images: np.ndarray, captions: np.ndarray, similarity: str = "cosine") -> tuple[_Direction, _Direction]:
    """Image to text and text to image; captions i c .. i c + c - 1 belong to image i."""
    member = SIMILARITIES.load(similarity)
    image_ids = np.arange(len(images))
    owners = np.repeat(image_ids, len(captions) // len(images))
    measure = partial(member.score, params=member.Params())
    scores = Scores.from_sides(torch.from_numpy(images), torch.from_numpy(captions), measure)
    return (
        _direction(scores, Truth.by_image(image_ids, owners)),
        _direction(scores.transposed(), Truth.by_image(owners, image_ids)),
    )


def _direction(scores: Scores, truth: Truth) -> _Direction:
    unclear = []
    for rows, block in scores.blocks():
        local, columns = truth.correct_pairs(rows, block.device)
        correct = block[local, columns]
        best = torch.full((len(block),), -torch.inf).scatter_reduce(0, local, correct, "amax")
        close = ((block - best[:, None]).abs() <= _CLOSE).sum(dim=1)
        unclear.append(close - torch.bincount(local[correct >= best[local] - _CLOSE], minlength=len(block)))
    return _Direction(evaluation.rank(scores, truth, "pessimistic"), scores, torch.cat(unclear).numpy())


def _figures(ranks: np.ndarray) -> np.ndarray:
    recalls = [recall.recall(recall.hits_at(ranks, k)) for k in (1, 5, 10)]
    return np.array([*recalls, recall.median_rank(ranks), recall.mean_rank(ranks)])


def _ten(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The figures of both directions, and how far each may be off."""
    directions = _directions(images, captions)
    return (
        np.concatenate([direction.figures() for direction in directions]),
        np.concatenate([direction.leeway() for direction in directions]),
    )


def _first(name: str, direction: _Direction, stored: np.ndarray) -> Result:
    """By how much the stored first item scores below ours: 0 where they are the same."""
    ours = torch.from_numpy(direction.outcome.top.reshape(len(stored), -1)[:, :1])
    theirs = torch.from_numpy(stored)[:, None]
    gaps = [block.gather(1, ours[rows]) - block.gather(1, theirs[rows]) for rows, block in direction.scores.blocks()]
    return name, float(torch.cat(gaps).max()), 1e-6


def _least_to_spare(name: str, ours: np.ndarray, stored: np.ndarray, allowed: np.ndarray) -> Result:
    """Error and allowance of the element with the least to spare."""
    if np.shape(ours) != np.shape(stored):
        return name, np.inf, 0.0
    error, allowed = np.abs(np.ravel(ours) - np.ravel(stored)), np.ravel(allowed)
    at = (error - allowed).argmax()
    return name, float(error[at]), float(allowed[at])
