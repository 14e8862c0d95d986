"""Ranks of vectors or scores under an inference criterion, their figures, intervals and comparison. The stage ``evaluate``
and the command ``compare`` compute the same."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from vse_pipe.api import arguments
from vse_pipe.api.criteria import Inference
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate import files as external
from vse_pipe.evaluate import measure
from vse_pipe.evaluate.stage import residual
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import comparison, criteria
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.graded import Further, Graded
from vse_pipe.ranking.intervals import intervals
from vse_pipe.ranking.recall import Relevance, mean_grades
from vse_pipe.ranking.scores import top_k
from vse_pipe.ranking.split import OWN, BankSource, Split, cosine, repetition
from vse_pipe.tools import compare as tables

DIRECTION = "direction"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranking of images and captions in both directions. It keeps the vectors, and scores that fit into ``memory``."""

    _result: measure.Result
    _gives_tensors: bool

    def __repr__(self) -> str:
        figures = self.metrics()
        recalls = ", ".join(f"{name} R@1 {figures[name]['r@1']:.1f}" for name in DIRECTIONS)
        return f"Ranking({self._result.criterion.name}: rsum {figures['rsum']:.1f}, {recalls})"

    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json: R@K, mrr, map, ndcg and hubness of each direction, ``rsum``, ``hs_sum``, the
        parameters, the bank and whether a result depends on other queries. R@K, mrr, map and ndcg are percentages.

        >>> import numpy as np, vse_pipe as vp
        >>> vp.rank(np.eye(3), np.eye(3)).metrics()["text_to_image"]["r@1"]
        100.0
        """
        return copy.deepcopy(self._result.metrics)

    def intervals(self, seed: int = 1, resamples: int = 1000, level: float = 0.95) -> dict[str, Any]:
        """Bootstrap intervals [low, high] of the figures, at their addresses in ``metrics``. Images are drawn with all
        their captions, because the captions of one image are not independent.

        >>> import numpy as np, vse_pipe as vp
        >>> vp.rank(np.eye(3), np.eye(3)).intervals()["rsum"]
        [600.0, 600.0]
        """
        arguments.number("resamples", resamples)
        if not 0 < level < 1:
            raise UsageError(f"level is {level}; expected a share between 0 and 1, such as 0.95")
        limits = intervals(self._result.ranks, self._result.occurrence, resamples, seed, level)
        return measure.rounded(limits)  # type: ignore[no-any-return]

    def ranks(self, direction: str) -> np.ndarray:
        """The rank of each query's best correct item, float64 (queries,), 1 = first; NaN for a query without a correct
        item. A matching such as ``rgm`` has no ranks and raises UsageError.

        >>> import numpy as np, vse_pipe as vp
        >>> vp.rank(np.eye(3), np.eye(3)[[1, 0, 2]], [0, 1, 2]).ranks("text_to_image")
        array([3., 3., 1.])
        """
        self._require_order(direction)
        rows = self._result.ranks.to_pandas().query(f"{DIRECTION} == '{direction}'")
        figures = self._result.metrics[direction]
        ranks = np.full(figures["queries"] + figures.get("unjudged", 0), np.nan)
        ranks[rows["query_id"].to_numpy()] = rows["rank"].to_numpy()
        return ranks

    def top(self, k: int, direction: str) -> tuple[Any, Any]:
        """The best k items of every query, best first: scores (queries, k) and their rows (queries, k), int64. Tensors on
        the device of the vectors where ``rank`` was given tensors.

        >>> import numpy as np, vse_pipe as vp
        >>> scores, items = vp.rank(np.eye(3), np.eye(3)).top(1, "text_to_image")
        >>> items[:, 0]
        array([0, 1, 2])
        """
        arguments.number("k", k)
        self._require_order(direction)
        if not self._result.trials:
            raise UsageError("a ranking that was copied or saved has figures and ranks, and no scores; rank again")
        scores = self._result.trials[direction][0].under(self._result.tunings[direction].criterion)
        values, items = None, None  # filled in place: small results between large strips would scatter the memory
        for rows, strip in scores.blocks():
            best, columns = top_k(strip, k)
            if values is None or items is None:
                shape = (scores.shape[0], best.shape[1])
                values, items = best.new_empty(shape), columns.new_empty(shape)
            values[rows], items[rows] = best, columns
        assert values is not None
        assert items is not None
        return (values, items) if self._gives_tensors else (values.cpu().numpy(), items.cpu().numpy())

    def compared(self, name: str) -> comparison.Compared:
        """For ``vse_pipe.ranking.comparison``."""
        return comparison.Compared(name, self._result.metrics, self._result.ranks, self._result.occurrence)

    def __getstate__(self) -> dict[str, Any]:
        """Without the vectors and scores."""
        return {**vars(self), "_result": replace(self._result, trials={}, tunings={})}

    def _require_order(self, direction: str) -> None:
        """Raises UsageError for an unknown direction and for a matching."""
        arguments.chosen(DIRECTION, direction, DIRECTIONS)
        if self._result.criterion.matching:
            raise UsageError(
                f"{self._result.criterion.name} matches queries with items and ranks none; take the ranks of its rescoring"
            )


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
    tune: bool | None = None,
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
        owners: (M,) row of the image that each caption describes; by default caption i describes image i.
        criterion: a name such as "csls" or "is+rgm" (docs/criteria.md), or ``vp.criteria.CSLS(k=5)``.
        bank: (B, D) caption vectors, such as train captions: the queries that show which images are hubs. By default the
            ranked queries themselves, as in the papers.
        bank_images: (A, D) image vectors, likewise for captions. The two go together.
        similarity: "cosine" divides each vector by its length; "dot" takes them as they are.
        qrels: (P, 2) pairs (row of caption, row of image) that are correct, in place of ``owners``; with a third column
            they are graded, and a pair is correct with a mean grade above 0. ``metrics()["judged"]`` has the graded figures.
        validation: images, captions and owners that choose the parameters that were not given, such as lambda of "rgm".
        tune: True lets ``validation`` choose all parameters, False only those without a default.
        ties: place of a correct item that scores like wrong ones: "pessimistic" (last), "average" or "optimistic".
        memory: MiB of scores and working copies.

    Raises InputError and UsageError with the argument's name and shape.
    """
    arguments.chosen("similarity", similarity, arguments.SIMILARITIES)
    device, tensors = arguments.device(images, captions), arguments.has_tensors(images, captions)
    sides = {"images": images, "captions": captions, "bank": bank, "bank_images": bank_images}
    given = {name: value for name, value in sides.items() if value is not None or not name.startswith("bank")}
    vectors = {name: arguments.vectors(name, value, similarity, device) for name, value in given.items()}
    arguments.require_one_width(**vectors)
    split, source = _split(vectors["images"], vectors["captions"], owners, qrels), BankSource(OWN)
    _warn_of_copies("images", vectors["images"], split)
    if len(vectors) > 2:
        _require_both(bank, bank_images)
        source = BankSource("given", _unpaired(vectors["bank_images"], vectors["bank"]))
        _require_others(source, split, "bank and bank_images")
    inputs = measure.Inputs(split, source, None, source, cosine, {"similarity": similarity})
    if validation is not None:
        inputs = replace(inputs, tuning=_validation(validation, similarity, vectors["images"]))
        _require_others(BankSource("given", inputs.tuning), split, "validation")
    return _ranked(inputs, criterion, qrels, tensors, tune=tune, ties=ties, memory=memory)


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
        scores: (N, M), images in rows and captions in columns; larger is more similar. They are not copied: do not
            change them while the ranking is used.
        owners: (M,) row of the image that each caption describes; by default caption i describes image i.
        criterion: as for ``rank``; "dual_is" compares items with items, which scores do not hold.
        bank: (N, B) scores of the images with the captions of a bank.
        bank_images: (A, M) scores of the images of a bank with the captions.
        qrels, ties, memory: as for ``rank``.
    """
    device, tensors = arguments.device(scores), arguments.has_tensors(scores)
    cells = {"scores": scores, "bank": bank, "bank_images": bank_images}
    parts = {
        name: torch.from_numpy(arguments.writable(name, value, "captions")).to(device)
        for name, value in cells.items()
        if value is not None or name == "scores"
    }
    for name, matrix in parts.items():
        if not matrix.numel():
            raise InputError(f"{name} has shape {tuple(matrix.shape)}; expected an image and a caption at least")
    table, (count, columns) = _Table(parts), parts["scores"].shape
    for name, axis, side in (("bank", 0, "images"), ("bank_images", 1, "captions")):
        if name in parts and parts[name].shape[axis] != parts["scores"].shape[axis]:
            shapes = f"{name} has shape {tuple(parts[name].shape)}, and scores {tuple(parts['scores'].shape)}"
            raise InputError(f"{shapes}: both need as many {side}")
    split = _split(_numbers(0, count, device), _numbers(0, columns, device), owners, qrels)
    _warn_of_copies("scores", parts["scores"], split)
    source = _BankOfScores(OWN)
    if len(parts) > 1:
        _require_both(bank, bank_images)
        more = len(parts["bank_images"]), parts["bank"].shape[1]
        bank_split = _unpaired(_numbers(count, more[0], device), _numbers(columns, more[1], device))
        source = _BankOfScores("given", bank_split)
    inputs = measure.Inputs(split, source, None, source, table.similarity, {"similarity": "given"})
    return _ranked(inputs, criterion, qrels, tensors, ties=ties, memory=memory)


def _warn_of_copies(name: str, images: Tensor, split: Split) -> None:
    """images: their vectors or scores. Raises InputError as ``repetition``."""
    owners = split.caption_images if split.relevance is None else None
    arguments.warn(repetition(name, images, owners), 4)


def _require_both(bank: ArrayLike | None, bank_images: ArrayLike | None) -> None:
    """Raises UsageError for one of the two: figures of both directions would mix a bank with the ranked queries."""
    if bank is None or bank_images is None:
        absent = "bank" if bank is None else "bank_images"
        raise UsageError(f"{absent} is missing: bank corrects images and bank_images captions; give both or none")


def _require_others(source: BankSource, ranked: Split, names: str) -> None:
    if message := external.renumbered(source, ranked):
        raise InputError(f"{names}: {message}")


@dataclass(frozen=True)
class _Table:
    """Scores in place of a similarity: the vectors are the numbers of rows and columns, those of a bank go on where the
    ranked ones end."""

    parts: dict[str, Tensor]

    def similarity(self, images: Tensor, captions: Tensor) -> Tensor:
        count, columns = self.parts["scores"].shape
        rows, places = images[:, 0].long(), captions[:, 0].long()
        if len(rows) and rows[0] >= count:
            return _cells(self.parts["bank_images"], rows - count, places)
        if len(places) and places[0] >= columns:
            return _cells(self.parts["bank"], rows, places - columns)
        return _cells(self.parts["scores"], rows, places)


def _cells(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """A view where the numbers follow each other, as those of strips do."""
    following = [
        slice(int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) and bool((numbers.diff() == 1).all()) else numbers
        for numbers in (rows, columns)
    ]
    return matrix[following[0]][:, following[1]]


def _numbers(first: int, count: int, device: torch.device) -> Tensor:
    return torch.arange(first, first + count, dtype=torch.float64, device=device)[:, None]  # exact up to 2^53


class _BankOfScores(BankSource):
    def bank(self, *arguments: Any, **options: Any) -> Bank:
        return replace(super().bank(*arguments, **options), gallery=None)


def compare(
    a: Ranking,
    b: Ranking,
    *more: Ranking,
    names: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> pd.DataFrame:
    """The difference of each further ranking from ``a``, with its 95% interval and two-sided p-value, of the same queries
    and items. Images are drawn with all their captions. With several rankings p is corrected for their number (Holm).

    Returns a row for each further ranking, direction and metric: a, b, difference (b - a), low, high, p. The rankings are
    called by ``names``, one for each argument; by default 0 is ``a``, 1 is ``b`` and so on. A matching has no interval of
    hubness.

    >>> import numpy as np, vse_pipe as vp
    >>> rng = np.random.default_rng(0)
    >>> images, noise = rng.normal(size=(2, 40, 8))
    >>> table = vp.compare(vp.rank(images, images + noise), vp.rank(images, images + 0.1 * noise))
    >>> bool(table.loc[(1, "text_to_image", "r@1"), "p"] < 0.05)
    True

    Raises InputError where the rankings do not have the same queries, items, protocol and ties.
    """
    rankings = (a, b, *more)
    if wrong := [type(each).__name__ for each in rankings if not isinstance(each, Ranking)]:
        raise UsageError(f"compare takes what vp.rank returns, and one argument is {wrong[0]}")
    if names is not None and (isinstance(names, str) or len(names) != len(rankings)):
        raise UsageError(f"names has {len(names)} entries for {len(rankings)} rankings")
    arguments.number("resamples", resamples, tables.FEWEST_RESAMPLES)
    labels: Sequence[str | int] = range(len(rankings)) if names is None else names
    sides = [
        comparison.Method.single(each.compared(f"ranking {label}"))
        for label, each in zip(labels, rankings, strict=True)
    ]
    comparisons = [comparison.compared(sides[0], side, resamples, seed) for side in sides[1:]]
    comparisons = tables.corrected(comparisons) if more else comparisons
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


def _ranked(
    inputs: measure.Inputs, criterion: str | Inference, qrels: ArrayLike | None, tensors: bool, **values: Any
) -> Ranking:
    arguments.chosen("ties", values["ties"], ("pessimistic", "average", "optimistic"))
    if values.get("tune", False) is None:
        del values["tune"]
    params = arguments.configured("rank", EvaluateParams, {"resamples": 0, **values})
    inference = Inference.of(criterion)
    parsed = criteria.parse(inference.name, inference.options)
    (parsed,), params = external.tuned_by_validation(inputs, [parsed], params)
    opened = [address.rpartition(".")[2] for address in measure.open_parameters(parsed, params)]
    if opened and inputs.tuning is None:
        raise UsageError(
            f"{parsed.name} has a parameter to choose: {', '.join(opened)}; give its value, such as vp.criteria.RGM(lam=2), or validation=(images, captions, owners) to vp.rank"
        )
    if qrels is not None and (pairs := arguments.array("qrels", qrels)).shape[1] > 2:
        graded = Graded(pairs[:, 1].astype(np.int64), pairs[:, 0].astype(np.int64), pairs[:, 2].astype(np.float64))
        inputs = replace(inputs, further=Further(graded))
    truth = [inputs.ranked.truth(direction) for direction in DIRECTIONS]
    correct = b"".join(side.tobytes() for direction in truth for side in (direction.starts, direction.items))
    data = {"correct": hashlib.sha256(correct).hexdigest()[:16]}
    with console.quiet():
        (result,) = measure.measure(replace(inputs, about={**inputs.about, "data": data}), [parsed], params)
    about = {name: value for name, value in result.metrics.items() if name != "intervals"}
    for direction, notes in result.metrics["notes"].items():
        arguments.warn(residual(parsed, direction, notes), 4)
    return Ranking(replace(result, metrics={**about, "split": "arrays"}), tensors)


def _split(images: Tensor, captions: Tensor, owners: ArrayLike | None, qrels: ArrayLike | None) -> Split:
    """images, captions: vectors, or numbers of rows and columns. Raises InputError for owners and pairs that do not fit."""
    counts = len(images), len(captions)
    numbers = np.arange(counts[0]), np.arange(counts[1])
    if qrels is not None:
        pairs = _pairs(qrels, counts)
        if owners is not None:
            raise UsageError("owners and qrels both say what is correct; give one of them")
        relevance = _relevance(pairs)
        return Split(*numbers, external.first_images(numbers[1], relevance), images, captions, relevance)
    rows = arguments.image_rows(owners, *counts)
    bare = np.setdiff1d(numbers[0], rows)
    if len(bare):
        raise InputError(
            f"owners: {len(bare):,} images have no caption, the first is row {bare[0]}; leave them out, or give qrels"
        )
    return Split(*numbers, rows, images, captions)


def _pairs(qrels: ArrayLike, counts: tuple[int, int]) -> np.ndarray:
    """(P, 2 or 3), checked: row of the caption, row of the image, grade."""
    pairs = arguments.array("qrels", qrels)
    if pairs.ndim != 2 or pairs.shape[1] not in (2, 3) or not len(pairs) or pairs.dtype.kind not in "iuf":
        raise InputError(f"qrels has shape {pairs.shape}; expected (pairs, 2): row of caption, row of image [, grade]")
    for column, name, count in ((0, "captions", counts[1]), (1, "images", counts[0])):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= count) | (pairs[:, column] % 1 != 0))
        if len(wrong):
            raise InputError(f"qrels: entry {wrong[0]} is {pairs[wrong[0], column]:g}, and there are {count:,} {name}")
    if pairs.shape[1] == 3 and not (
        np.isfinite(pairs[:, 2]).all() and (pairs[:, 2] >= 0).all() and (pairs[:, 2] > 0).any()
    ):
        raise InputError("qrels: grades must be finite, 0 or more, and one above 0; 0 is for nothing in common")
    return pairs


def _relevance(pairs: np.ndarray) -> Relevance:
    captions, images = pairs[:, :2].T.astype(np.int64)
    correct = mean_grades(images, captions, pairs[:, 2]) > 0 if pairs.shape[1] == 3 else slice(None)
    return Relevance.both_ways(images[correct], captions[correct])


def _unpaired(images: Tensor, captions: Tensor) -> Split:
    numbers = np.arange(len(images)), np.arange(len(captions))
    return Split(*numbers, np.full(len(captions), external.UNKNOWN), images, captions)


def _validation(sides: tuple[ArrayLike, ArrayLike, ArrayLike], similarity: str, ranked: Tensor) -> Split:
    """ranked: vectors of the same width, on the device to use."""
    if not isinstance(sides, tuple | list) or len(sides) != 3:
        raise UsageError("validation takes three: (images, captions, owners)")
    images, captions = (
        arguments.vectors(f"validation {name}", value, similarity, ranked.device)
        for name, value in zip(("images", "captions"), sides, strict=False)
    )
    arguments.require_one_width(**{"images": ranked, "validation images": images, "validation captions": captions})
    return _split(images, captions, sides[2], None)
