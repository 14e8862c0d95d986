"""Ranks of vectors or scores under a criterion, and their comparison, as ``evaluate`` and
``compare`` have them."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from vse_pipe.api import arguments
from vse_pipe.api.criteria import Inference
from vse_pipe.artifacts.evaluation import DIRECTIONS, rounded
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate import measure
from vse_pipe.evaluate.rank import VectorSets, task_of_vectors
from vse_pipe.evaluate.stage import warn_of_residuals
from vse_pipe.evaluate.task import Task
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import comparison, criteria
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Trial
from vse_pipe.ranking.graded import Graded
from vse_pipe.ranking.intervals import intervals
from vse_pipe.ranking.recall import Relevance, mean_grades
from vse_pipe.ranking.rows import require_distinct
from vse_pipe.ranking.scores import Scores, top_k
from vse_pipe.ranking.split import OWN, BankSource, Split, cosine
from vse_pipe.ranking.vectors import NO_IMAGE, Vectors

DIRECTION = "direction"
_UNTUNED = "nothing chooses parameters without validation; a value is given as in vp.criteria.RGM(lam=2)"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranking of images and captions in both directions."""

    _result: measure.Result
    _gives_tensors: bool

    def __repr__(self) -> str:
        figures = self.metrics()
        recalls = ", ".join(f"{name} R@1 {figures[name]['r@1']:.1f}" for name in DIRECTIONS)
        return f"Ranking({self._result.criterion.name}: rsum {figures['rsum']:.1f}, {recalls})"

    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json: R@K, mrr, map, ndcg (percentages) and hubness of each
        direction, ``rsum``, ``hs_sum``, the parameters and the bank."""
        return copy.deepcopy(self._result.metrics)

    def intervals(self, seed: int = 1, resamples: int = 1000) -> dict[str, Any]:
        """Bootstrap intervals [low, high] of 95 % of the figures, at their addresses in
        ``metrics``. Images are drawn with all their captions."""
        arguments.number("resamples", resamples)
        limits = intervals(self._result.ranks, self._result.occurrence, resamples, seed)
        return rounded(limits)  # type: ignore[no-any-return]

    def ranks(self, direction: str) -> np.ndarray:
        """The rank of each query's best correct item, float64 (queries,), 1 = first; NaN for a
        query without a correct item. Raises UsageError for a matching such as ``rgm``."""
        self._require_order(direction)
        rows = self._result.ranks.to_pandas().query(f"{DIRECTION} == '{direction}'")
        figures = self._result.metrics[direction]
        ranks = np.full(figures["queries"] + figures.get("unjudged", 0), np.nan)
        ranks[rows["query_id"].to_numpy()] = rows["rank"].to_numpy()
        return ranks

    def top(self, k: int, direction: str) -> tuple[Any, Any]:
        """The best k items of every query, best first: scores (queries, k) and their rows (queries,
        k), int64; tensors where ``rank`` took tensors."""
        arguments.number("k", k)
        self._require_order(direction)
        scores = self._result.trials[direction][0].under(self._result.choices[direction].criterion)
        best = [top_k(strip, k) for _, strip in scores.blocks()]
        values, items = (torch.cat(strips) for strips in zip(*best, strict=True))
        return (values, items) if self._gives_tensors else (values.cpu().numpy(), items.cpu().numpy())

    def _require_order(self, direction: str) -> None:
        """Raises UsageError for an unknown direction and for a matching."""
        arguments.chosen(DIRECTION, direction, DIRECTIONS)
        if self._result.criterion.matching:
            name = self._result.criterion.name
            raise UsageError(f"{name} matches queries with items and ranks none; take the ranks of its rescoring")


def rank(
    images: ArrayLike,
    captions: ArrayLike,
    owners: ArrayLike | None = None,
    *,
    criterion: str | Inference = "nns",
    bank: ArrayLike | None = None,
    bank_images: ArrayLike | None = None,
    similarity: str = "cosine",
    qrels: ArrayLike | None = None,
    validation: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    ties: str = "pessimistic",
    memory: int = 4096,
) -> Ranking:
    """Captions ranked for every image, and images for every caption.

    >>> import numpy as np, vse_pipe as vp
    >>> rng = np.random.default_rng(0)
    >>> images = rng.normal(size=(50, 8))
    >>> captions = np.repeat(images, 5, axis=0) + rng.normal(size=(250, 8))
    >>> result = vp.rank(images, captions, np.repeat(np.arange(50), 5), criterion="csls")
    >>> result
    Ranking(csls: rsum 494.0, image_to_text R@1 76.0, text_to_image R@1 48.4)

    Args:
        images: (N, D) vectors, numpy or torch; computed on their device.
        captions: (M, D) vectors of the same model.
        owners: (M,) row of the image that each caption describes; by default i for caption i.
        criterion: a name such as "csls" or "is+rgm", or ``vp.criteria.CSLS(k=5)``.
        bank: (B, D) caption vectors that show which images are hubs; by default those ranked.
        bank_images: (A, D) image vectors, likewise for captions. The two go together.
        similarity: "cosine" divides each vector by its length; "dot" takes them as they are.
        qrels: (P, 2) pairs (row of caption, row of image) that are correct, in place of ``owners``;
            with a third column of grades a pair is correct with a mean above 0.
        validation: images, captions and owners that choose the parameters that were not given.
        ties: place of a correct item among equal scores: "pessimistic" or "optimistic".
        memory: MiB of scores and working copies.

    Raises InputError and UsageError with the argument's name and shape.
    """
    place = arguments.device(images, captions)
    sides = arguments.matrix("images", images), arguments.matrix("captions", captions)
    relevance, graded, rows = _correct(owners, qrels, (len(sides[0]), len(sides[1])))
    ranked = Vectors.of_arrays(*sides, rows, similarity)

    def partner(names: tuple[str, str], images: Any, captions: Any, *owners: Any) -> Vectors:
        arrays = arguments.matrix(names[0], images), arguments.matrix(names[1], captions)
        rows = arguments.image_rows(*owners, *map(len, arrays)) if owners else None
        return Vectors.of_arrays(*arrays, rows, similarity, where=names)

    if validation is not None and len(validation) not in (2, 3):
        raise UsageError("validation takes three: (images, captions, owners)")
    has_bank = bank is not None or bank_images is not None
    banks = partner(("bank_images", "bank"), bank_images, bank) if has_bank else None
    chooses = validation and partner(("validation images", "validation captions"), *validation)
    task = task_of_vectors(VectorSets(ranked, banks, chooses), EvaluateParams(), place, relevance)
    task = replace(task, graded=graded, lacking=_UNTUNED)
    return _ranked(task, criterion, images, ties=ties, memory=memory)


def rank_scores(
    scores: ArrayLike,
    owners: ArrayLike | None = None,
    *,
    criterion: str | Inference = "nns",
    bank: ArrayLike | None = None,
    bank_images: ArrayLike | None = None,
    qrels: ArrayLike | None = None,
    ties: str = "pessimistic",
    memory: int = 4096,
) -> Ranking:
    """As ``rank``, for the scores of any model.

    >>> import numpy as np, vse_pipe as vp
    >>> vp.rank_scores(np.array([[2.0, 1, 0], [0, 1, 2]]), [0, 0, 1]).ranks("image_to_text")
    array([1., 1.])

    Args:
        scores: (N, M), images in rows; larger is more similar. They are not copied.
        owners: (M,) row of the image that each caption describes; by default i for caption i.
        criterion: as for ``rank``; "dual_is" compares items with items, which scores do not hold.
        bank: (N, B) scores of the images with the captions of a bank.
        bank_images: (A, M) scores of the images of a bank with the captions.
        qrels, ties, memory: as for ``rank``.
    """
    place = arguments.device(scores)
    cells = arguments.cells("scores", scores, place)
    relevance, graded, rows = _correct(owners, qrels, (cells.shape[0], cells.shape[1]))
    numbers, empty = [np.arange(count) for count in cells.shape], torch.empty(0)
    if relevance is None:
        require_distinct("scores", cells, rows)
    split, source = Split(numbers[0], numbers[1], rows, empty, empty, relevance), BankSource(OWN)
    sides = queries = Scores.dense(cells), Scores.dense(cells).transposed()
    has_bank = bank is not None or bank_images is not None
    if has_bank:
        of_captions = arguments.cells("bank_images", bank_images, place, columns=cells.shape[1])
        of_images = arguments.cells("bank", bank, place, rows=cells.shape[0])
        source = BankSource("given", split)
        queries = Scores.dense(of_captions), Scores.dense(of_images).transposed()
    trials = {
        direction: [Trial(ranked, Bank(of_bank, not has_bank), split.truth(direction))]
        for direction, ranked, of_bank in zip(DIRECTIONS, sides, queries, strict=True)
    }
    about: dict[str, object] = {"similarity": "given"}
    task = Task(split, source, None, source, cosine, about, graded=graded, trials=trials, lacking=_UNTUNED)
    return _ranked(task, criterion, scores, ties=ties, memory=memory)


def compare(
    a: Ranking,
    b: Ranking,
    *more: Ranking,
    names: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> pd.DataFrame:
    """The difference of each further ranking from ``a``, with its 95% interval and two-sided
    p-value, of the same queries and items. Images are drawn with all their captions. With several
    rankings p is corrected for their number (Holm).

    Returns a row for each further ranking, direction and metric: a, b, difference (b - a), low,
    high, p. names: of the rankings, by default 0, 1, 2, ... A matching has no interval of hubness.

    Raises InputError where the rankings do not have the same queries, items, protocol and ties.
    """
    rankings = (a, b, *more)
    labels: Sequence[str | int] = range(len(rankings)) if names is None else names
    if len(labels) != len(rankings):
        raise UsageError(f"names has {len(labels)} entries for {len(rankings)} rankings")
    arguments.number("resamples", resamples)
    results = [each._result for each in rankings]
    sides = [
        comparison.Method(label, {"": comparison.Compared(label, result.metrics, result.ranks, result.occurrence)})
        for label, result in zip(map(str, labels), results, strict=True)
    ]
    comparisons = [comparison.compare(sides[0], side, resamples, seed) for side in sides[1:]]
    comparisons = comparison.corrected(comparisons) if more else comparisons
    rows = [
        {
            "ranking": label,
            DIRECTION: row.address[0] if len(row.address) > 1 else "both",
            "metric": row.address[-1],
            **{"a": row.a, "b": row.b, "difference": row.difference},
            **dict(zip(("low", "high"), row.interval or (np.nan, np.nan), strict=True)),
            "p": np.nan if row.decisive is None else row.decisive,
        }
        for label, each in zip(labels[1:], comparisons, strict=True)
        for row in each.rows
    ]
    return pd.DataFrame(rows).set_index(["ranking", DIRECTION, "metric"])


def _ranked(task: Task, criterion: str | Inference, first: ArrayLike, **values: Any) -> Ranking:
    """first: the argument whose kind decides that of the results."""
    params = arguments.configured("rank", EvaluateParams, {"resamples": 0, **values})
    inference = Inference.named(criterion)
    parsed = criteria.parse(inference.name, inference.options)
    task, (parsed,) = replace(task, options=params).tuned([parsed])
    truth = [task.split.truth(direction) for direction in DIRECTIONS]
    correct = b"".join(side.tobytes() for direction in truth for side in (direction.starts, direction.items))
    data = {"correct": hashlib.sha256(correct).hexdigest()[:16]}
    ((_, result),) = measure.results(replace(task, about={**task.about, "data": data}), [parsed])
    if not isinstance(result, measure.Result):
        raise result
    about = {name: value for name, value in result.metrics.items() if name != "intervals"}
    warn_of_residuals(parsed, result.metrics["notes"], partial(warnings.warn, stacklevel=4))
    return Ranking(replace(result, metrics={**about, "split": "arrays"}), isinstance(first, Tensor))


def _correct(
    owners: ArrayLike | None, qrels: ArrayLike | None, counts: tuple[int, int]
) -> tuple[Relevance | None, Graded | None, np.ndarray]:
    """The correct pairs of ``qrels`` and their grades, and the row of each caption's image. counts:
    of images and of captions. Raises InputError for owners and pairs that do not fit."""
    if qrels is None:
        return None, None, arguments.image_rows(owners, *counts)
    if owners is not None:
        raise UsageError("owners and qrels both say what is correct; give one of them")
    pairs = arguments.matrix("qrels", qrels, columns="2 or 3")
    if pairs.shape[1] not in (2, 3) or not len(pairs):
        raise InputError(f"qrels has shape {pairs.shape}; expected row of caption, row of image [, grade]")
    images, captions = pairs[:, 1], pairs[:, 0]
    grades = pairs[:, 2] if pairs.shape[1] == 3 else np.ones(len(pairs))
    for name, rows, count in (("caption", captions, counts[1]), ("image", images, counts[0])):
        if not np.isin(rows, np.arange(count)).all():
            raise InputError(f"qrels: a row of {name} is none of the {count:,} that there are")
    images, captions = images.astype(np.int64), captions.astype(np.int64)
    if not (np.isfinite(grades).all() and (grades >= 0).all() and (grades > 0).any()):
        raise InputError("qrels: grades must be finite, 0 or more, and one above 0")
    is_correct = mean_grades(images, captions, grades) > 0
    relevance = Relevance.both_ways(images[is_correct], captions[is_correct])
    graded = Graded(images, captions, grades.astype(np.float64)) if pairs.shape[1] == 3 else None
    return relevance, graded, relevance.first_images(np.arange(counts[1]), NO_IMAGE)
