"""Correct items, ranks and recall, preference between pairs, and convergence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import spans

Ties = Literal["pessimistic", "optimistic"]


@dataclass(frozen=True)
class Relevance:
    """Correct pairs other than captions of their image: by direction, ids of queries and of items,
    int64 and parallel. The directions may differ, because collections of judgements ask about
    different images and captions."""

    pairs: dict[str, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def both_ways(cls, images: np.ndarray, captions: np.ndarray) -> "Relevance":
        """From pairs of image_id and caption_id that hold in both directions."""
        return cls({"image_to_text": (images, captions), "text_to_image": (captions, images)})

    def first_images(self, captions: np.ndarray, none: int) -> np.ndarray:
        """The first correct image of each caption, ``none`` without one: captions of one image are
        not independent in the bootstrap."""
        judged, images = self.pairs["text_to_image"]
        named, first = np.unique(judged, return_index=True)
        place = np.searchsorted(named, captions).clip(max=len(named) - 1)
        return np.where(named[place] == captions, images[first[place]], none)


def mean_grades(
    first: Int[np.ndarray, " rows"], second: Int[np.ndarray, " rows"], grades: np.ndarray
) -> Float[np.ndarray, " rows"]:
    """For each row the mean grade of its pair, which may be judged several times."""
    pairs = np.unique(np.stack([first, second]), axis=1, return_inverse=True)[1].ravel()
    return (np.bincount(pairs, grades) / np.bincount(pairs))[pairs]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Truth:
    """starts: int64 (queries + 1,); items: int64, correct items of query q are
    ``items[starts[q]:starts[q + 1]]``; columns: number of items to choose from."""

    starts: np.ndarray
    items: np.ndarray
    columns: int

    @classmethod
    def by_image(cls, query_images: np.ndarray, item_images: np.ndarray) -> "Truth":
        """An item with the query's image_id is correct. Raises InputError when a query has none."""
        order = np.argsort(item_images, kind="stable")
        first = np.searchsorted(item_images[order], query_images, side="left")
        counts = np.searchsorted(item_images[order], query_images, side="right") - first
        lonely = query_images[counts == 0]
        if len(lonely):
            raise InputError(
                f"{len(lonely)} queries have no correct item, the first is of image_id {lonely[0]}; "
                "every image needs a caption in the same split, and every caption its image"
            )
        return cls(np.concatenate([[0], counts.cumsum()]), order[spans(first, counts)], len(item_images))

    @classmethod
    def by_pairs(
        cls, queries: np.ndarray, items: np.ndarray, pair_queries: np.ndarray, pair_items: np.ndarray
    ) -> "Truth":
        """An item whose pair of ids is among the pairs is correct; pairs with unknown ids do not
        count.

        queries, items: unique ids, int64, in the order of the scores' rows and columns;
        pair_queries, pair_items: ids, int64 (pairs,), in any order. A query may have no correct
        item: see ``judged``."""
        rows, columns = places(queries, pair_queries), places(items, pair_items)
        inside = (rows >= 0) & (columns >= 0)
        cells = np.unique(rows[inside] * len(items) + columns[inside])
        return cls.of_cells(cells, len(queries), len(items))

    @classmethod
    def of_cells(cls, cells: np.ndarray, queries: int, items: int) -> "Truth":
        """cells: places of the correct pairs in the flattened scores, ascending."""
        counts = np.bincount(cells // items, minlength=queries)
        return cls(np.concatenate([[0], counts.cumsum()]), cells % items, items)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def judged(self) -> np.ndarray:
        """Rows of the queries that have a correct item, ascending, int64."""
        return np.flatnonzero(np.diff(self.starts))

    def turns(self) -> Int[np.ndarray, " queries"]:
        """The number of earlier queries with the same first correct item, 0 for queries without
        one. For captions it is their number within their image, in the order of the file; for
        images 0."""
        judged = self.judged()
        first = self.items[self.starts[judged]]
        order = np.argsort(first, kind="stable")
        turns = np.zeros(len(self), np.int64)
        turns[judged[order]] = np.arange(len(judged)) - np.searchsorted(first, first[order], sorter=order)
        return turns

    def correct_pairs(self, rows: slice, device: torch.device) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
        """The correct pairs of some queries: row within ``rows``, and column."""
        starts = self.starts[rows.start : rows.stop + 1]
        local = torch.from_numpy(np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
        columns = torch.from_numpy(self.items[starts[0] : starts[-1]])
        return local.to(device, non_blocking=True), columns.to(device, non_blocking=True)

    def holds(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Whether each item is correct for its query, bool (pairs,)."""
        cells = rows * self.columns + columns
        return self._cells[np.searchsorted(self._cells[:-1], cells)] == cells

    @cached_property
    def _cells(self) -> Int[np.ndarray, " pairs_and_one"]:
        """The correct pairs as ascending places in the flattened scores, and one beyond."""
        queries = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return np.append(np.sort(queries * self.columns + self.items), len(self) * self.columns)


def places(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The place in ``ids`` of each value, -1 where it is absent."""
    order = np.argsort(ids, kind="stable")
    positions = order[np.searchsorted(ids, values, sorter=order).clip(max=len(ids) - 1)]
    return np.where(ids[positions] == values, positions, -1)


def positions(
    scores: Float[Tensor, "rows items"], rows: slice, truth: Truth, ties: Ties
) -> Float[np.ndarray, " pairs"]:
    """0-based positions of each query's correct items, ascending within a query, query after query
    as in ``truth.starts``. The first of a query is its rank: the number of items that score higher
    than its best correct item.

    Wrong items with exactly its score stand before a correct item (pessimistic) or behind it
    (optimistic); the authors' code leaves them to an unstable argsort. Raises InputError on NaN or
    infinite scores, which would rank first."""
    if not all(bool(extreme.isfinite()) for extreme in scores.aminmax()):
        raise InputError(f"scores of queries {rows.start} to {rows.stop - 1} hold NaN or infinite values")
    local, columns = truth.correct_pairs(rows, scores.device)
    correct, queries = scores[local, columns].cpu().numpy(), local.cpu().numpy()
    correct = correct[descending(queries, correct)]
    numbers = number_above(scores, queries, correct, ties == "optimistic")
    return counted(queries, correct, ties, numbers)


def descending(queries: Int[np.ndarray, " pairs"], scores: Float[np.ndarray, " pairs"]) -> Int[np.ndarray, " pairs"]:
    """The order for ``counted``: query after query, the highest score first."""
    return np.lexsort((-scores, queries))


def counted(
    queries: Int[np.ndarray, " pairs"],
    correct: Float[np.ndarray, " pairs"],
    ties: Ties,
    numbers: Int[np.ndarray, " pairs"],
) -> Float[np.ndarray, " pairs"]:
    """``positions`` of correct items with these scores, sorted by query, then by score. numbers: of
    each query's scores above each; pessimistic: or as high as it."""
    new = np.ones(len(correct), dtype=bool)
    new[1:] = (queries[1:] != queries[:-1]) | (correct[1:] != correct[:-1])
    first = np.flatnonzero(new)
    sizes = np.diff(np.append(first, len(correct)))
    within = np.arange(len(correct)) - np.repeat(first, sizes)
    places = numbers + within - (np.repeat(sizes, sizes) if ties == "pessimistic" else 0)
    return places.astype(np.float64)


# Cells compared at once on a GPU.
_AT_ONCE = 1 << 26


def number_above(
    scores: Float[Tensor, "rows items"],
    rows: Int[np.ndarray, " thresholds"],
    thresholds: Float[np.ndarray, " thresholds"],
    strictly: bool,
) -> Int[np.ndarray, " thresholds"]:
    """For each threshold the number of scores of its row above it, or not below it without
    ``strictly``. thresholds: in the precision of the scores."""
    if not (scores.is_cpu and scores.dtype in (torch.float32, torch.float64)):
        bounds, places = (torch.from_numpy(values).to(scores.device) for values in (thresholds, rows))
        parts = zip(*(values.split(max(1, _AT_ONCE // scores.shape[1])) for values in (places, bounds)), strict=True)
        exceeds = torch.gt if strictly else torch.ge
        return torch.cat([exceeds(scores[row], bound[:, None]).sum(dim=1) for row, bound in parts]).cpu().numpy()
    # A row at a time stays in the processor's cache, where numpy compares and counts 16 scores at
    # once.
    compare = np.greater if strictly else np.greater_equal
    values, passes = scores.numpy(), np.empty(scores.shape[1], bool)
    numbers = np.empty(len(rows), np.int64)
    for place, (row, threshold) in enumerate(zip(rows, thresholds, strict=True)):
        compare(values[row], threshold, out=passes)
        numbers[place] = np.count_nonzero(passes)
    return numbers


def recall(hits: Bool[np.ndarray, " queries"]) -> float:
    """R@K in percent: the share of queries with at least one correct item."""
    return 100.0 * float(hits.mean())


def chance(correct: Int[np.ndarray, " queries"], items: int, k: int) -> float:
    """Expected R@K in percent of random ranks. correct: of the ``items``, by query."""
    places = np.arange(min(k, items))
    missed = np.clip(items - correct[:, None] - places, 0, None) / (items - places)
    return 100.0 * float((1 - missed.prod(axis=1)).mean())


def median_rank(ranks: Float[np.ndarray, " queries"]) -> float:
    """Med r as in VSE++ and its successors: floor(median of 0-based ranks) + 1."""
    return float(np.floor(np.median(ranks)) + 1)


def mean_rank(ranks: Float[np.ndarray, " queries"]) -> float:
    """Mean r, 1 = always first."""
    return float(ranks.mean() + 1)


Answers = dict[str, Bool[np.ndarray, " sets"]]
# Percent of sets that random scores answer.
SET_CHANCE = {"text": 25.0, "image": 25.0, "group": 100.0 / 6.0, "accuracy": 50.0}


def two_by_two(scores: Float[np.ndarray, "sets 2 2"]) -> Answers:
    """Two pictures and their captions, the i-th of the i-th. Each picture prefers its caption
    (text), each caption its picture (image), or both (group). Thrush et al., Winoground, CVPR 2022,
    Eqs. 1 to 3; equal scores count as no preference, as in the paper."""
    matching, swapped = scores[:, [0, 1], [0, 1]], scores[:, [0, 1], [1, 0]]
    text: np.ndarray = np.all(matching > swapped, axis=1)
    image: np.ndarray = np.all(matching > swapped[:, ::-1], axis=1)
    return {"text": text, "image": image, "group": text & image}


def true_or_false(right: Float[np.ndarray, " sets"], wrong: Float[np.ndarray, " sets"]) -> Answers:
    """Whether a picture prefers its caption to a false one. Hsieh et al., SugarCrepe, NeurIPS 2023
    (ARO and VL-CheckList use the same measure); equal scores count as wrong."""
    return {"accuracy": right > wrong}


# Epochs of patience for a run without one.
WINDOW = 3
# The last epochs of a flat curve may raise the best rsum by this share (3 of 300 points), or by
# these points if that is more: at chance level a hundredth of rsum is less than one query in a
# hundred.
RISE, NOISE = 0.01, 0.5


def waited(rsums: Sequence[float], since: int = 0) -> int:
    """Epochs since the first best rsum, or since the first ``since`` epochs if these are fewer.

    rsums: of every epoch so far. since: epochs that do not count as waiting, such as a warm-up."""
    best = max(range(len(rsums)), key=rsums.__getitem__) + 1 if rsums else 0
    return max(0, len(rsums) - max(best, since))


def converged(rsums: Sequence[float], patience: int | None = None) -> bool:
    """Whether the last ``patience`` epochs raised the best rsum by at most a hundredth of it, or
    half a point if more.

    A run of at most ``patience`` epochs is judged by all epochs after its first; a single epoch has
    not converged.

    rsums: of every epoch, in percent. patience: of the run; None: 3 epochs."""
    last = min(patience or WINDOW, len(rsums) - 1)
    return last > 0 and max(rsums) - max(rsums[:-last]) <= max(RISE * max(rsums), NOISE)
