"""Greedy matching with quotas, without sorting all pairs.

Algorithm 1 of the RGM paper sorts every (query, item) pair and accepts pairs from the top. Under
scores shared by both sides the accepted pairs are the one stable assignment with those quotas.
Deferred acceptance finds it from each query's best candidates; a query whose list is used up gets
the next items that may still accept it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import spans
from vse_pipe.ranking.inference.options import Mode
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores, top_k

CANDIDATES = 128


@dataclass(frozen=True)
class Allowance:
    """k: items a query may take; lam: the relaxation factor, which scales a quota."""

    k: int
    lam: float = 1.0

    def quota(self, queries: int, items: int, mode: Mode) -> int:
        """The number of queries an item may serve; halves round to even."""
        return round(self.lam * self.k * (1 if mode == "literal" else max(1, queries / items)))


@dataclass(frozen=True)
class MatchedPairs:
    """rows, columns: query and item of each matched pair in the order of Algorithm 1."""

    rows: Int[np.ndarray, " pairs"]
    columns: Int[np.ndarray, " pairs"]


# The best items of each query, best first: scores float64, items int32.
_Lists = tuple[Float[np.ndarray, "queries best"], Int[np.ndarray, "queries best"]]


def wrong_first(scores: Scores, truth: Truth) -> Scores:
    """The scores with correct pairs one step of their precision lower. A matching has to choose
    among pairs of the same score, which says nothing about the model; so it takes the wrong ones
    first."""

    def lowered(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        cells = truth.correct_pairs(rows, strip.device)
        correct = strip[cells]
        return strip.index_put(cells, torch.nextafter(correct, torch.full_like(correct, -torch.inf)))

    return scores.mapped(lowered)


def greedy(scores: Scores, settings: Sequence[Allowance], mode: Mode) -> Iterator[MatchedPairs]:
    """The pairs that Algorithm 1 accepts under each setting; ties go to the lowest (row, column).

    rows: an item's quota is round(lambda k max(1, queries / items)); the algorithm ends when every
    query has k items or no pair is left. literal: as printed, quota round(lambda k), cut at
    min(queries, items) k pairs. captions: as rows; ``Criterion.match`` splits the queries."""
    lists = _first_candidates(scores)
    setting_before, matching = None, None
    for setting in settings:
        quota = min(setting.quota(*scores.shape, mode), scores.shape[0])
        # Neighbouring lambdas of a grid often round to the same quota.
        if matching is None or (setting.k, quota) != setting_before:
            setting_before, matching = (setting.k, quota), _matched(scores, lists, setting.k, quota, mode)
        yield matching


def _matched(scores: Scores, lists: _Lists, k: int, quota: int, mode: Mode) -> MatchedPairs:
    if quota == 0:
        return MatchedPairs(np.empty(0, np.int64), np.empty(0, np.int64))
    rows, columns, values = _Assignment(scores, lists, k, quota).solve()
    order = _best_first(values, rows, columns)
    if mode == "literal":
        order = order[: min(scores.shape) * k]
    return MatchedPairs(rows[order], columns[order])


def _best_first(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The order by descending value, then row and column; few values are equal."""
    order = np.argsort(-values)
    equal = np.diff(values[order]) == 0
    tied = np.concatenate([equal, [False]]) | np.concatenate([[False], equal])
    places = order[tied]
    order[tied] = places[np.lexsort((columns[places], rows[places], -values[places]))]
    return order


def _first_candidates(scores: Scores) -> _Lists:
    shape = scores.shape[0], min(CANDIDATES, scores.shape[1])
    values, columns = np.empty(shape), np.empty(shape, np.int32)
    for rows, strip in scores.blocks():
        best, places = top_k(strip, CANDIDATES)
        if not best.isfinite().all():
            raise InputError("scores hold NaN or infinite values and cannot be matched")
        values[rows], columns[rows] = best.double().cpu().numpy(), places.int().cpu().numpy()
    return values, columns


class _Assignment:
    """State of the proposals: what each item has accepted, best first, and each query's candidates.

    ``listed_scores`` and ``listed_items`` are (queries, best); query q has asked those before
    ``position[q]``, and its list ends at ``end[q]``; ``complete[q]``: no further item can be added.
    Where an item has accepted fewer than ``quota`` queries its last scores are -inf."""

    def __init__(self, scores: Scores, lists: _Lists, k: int, quota: int) -> None:
        queries, items = scores.shape
        self.scores, self.k, self.quota = scores, k, quota
        self.listed_scores, self.listed_items = (values.copy() for values in lists)
        self.position = np.zeros(queries, np.int64)
        self.end = np.full(queries, lists[0].shape[1])
        self.complete = self.end == items
        self.filled = np.zeros(queries, np.int64)
        self.held_scores = np.full((items, quota), -np.inf)
        self.held_rows = np.zeros((items, quota), np.int64)
        self.sizes = np.zeros(items, np.int64)

    def solve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and scores of the matched pairs, unordered."""
        self._propose()
        while (dry := (self.filled < self.k) & (self.position == self.end) & ~self.complete).any():
            for rows in self.scores.strips():
                if dry[rows].any():
                    self._extend(rows, np.flatnonzero(dry[rows]))
            self._propose()
        columns = np.repeat(np.arange(len(self.sizes)), self.sizes)
        is_held = np.arange(self.quota) < self.sizes[:, None]
        return self.held_rows[is_held], columns, self.held_scores[is_held]

    def _propose(self) -> None:
        """Rounds of proposals: every query asks as many of its next items as it lacks, until it has
        ``k`` or its list ends. Both sides prefer the higher score, then the lower row, so the
        result does not depend on the rounds."""
        free = np.arange(len(self.filled))
        while len(free := free[(self.filled[free] < self.k) & (self.position[free] < self.end[free])]):
            lacking = np.minimum(self.k - self.filled[free], self.end[free] - self.position[free])
            rows, places = np.repeat(free, lacking), spans(self.position[free], lacking)
            self.position[free] += lacking
            scores, items = self.listed_scores[rows, places], self.listed_items[rows, places]
            worst = self.held_scores[items, -1]
            winning = (scores > worst) | ((scores == worst) & (rows < self.held_rows[items, -1]))
            lost = self._hold(scores[winning], rows[winning], items[winning].astype(np.int64))
            free = np.union1d(free, lost)

    def _hold(self, scores: np.ndarray, rows: np.ndarray, items: np.ndarray) -> Int[np.ndarray, " lost"]:
        """Lets each item keep the best proposals; returns the queries of the others."""
        proposed = np.unique(items)
        places = spans(proposed * self.quota, self.sizes[proposed])
        self.filled += np.bincount(rows, minlength=len(self.filled))
        scores = np.concatenate([self.held_scores.ravel()[places], scores])
        rows = np.concatenate([self.held_rows.ravel()[places], rows])
        items = np.concatenate([places // self.quota, items])
        order = np.lexsort((rows, -scores, items))
        scores, rows, items = scores[order], rows[order], items[order]
        place = np.arange(len(items)) - np.searchsorted(items, items)
        stays, lost = place < self.quota, rows[place >= self.quota]
        self.held_scores[items[stays], place[stays]] = scores[stays]
        self.held_rows[items[stays], place[stays]] = rows[stays]
        self.sizes[proposed] = np.bincount(items[stays], minlength=len(self.sizes))[proposed]
        self.filled -= np.bincount(lost, minlength=len(self.filled))
        return lost

    def _extend(self, rows: slice, dry: np.ndarray) -> None:
        """New candidates for the ``dry`` queries of a strip: the best items beyond their lists that
        may accept them. An item never accepts later what it refuses now."""
        queries, strip = rows.start + dry, self.scores.strip(rows)
        strip = strip[torch.from_numpy(dry).to(strip.device)]
        columns = torch.arange(strip.shape[1], device=strip.device)
        last = queries, self.end[queries] - 1
        last_scores, last_items, worst = (
            torch.from_numpy(values).to(strip.device)
            for values in (self.listed_scores[last], self.listed_items[last], self.held_scores[:, -1])
        )
        last_scores, last_items = last_scores.to(strip)[:, None], last_items[:, None]
        unlisted = (strip < last_scores) | ((strip == last_scores) & (columns > last_items))
        winnable = unlisted & (strip >= worst.to(strip))
        values, items = top_k(strip.masked_fill(~winnable, -torch.inf), self.listed_items.shape[1])
        counts = winnable.sum(dim=1).cpu().numpy()
        self.listed_scores[queries], self.listed_items[queries] = values.double().cpu().numpy(), items.cpu().numpy()
        self.position[queries], self.end[queries] = 0, np.minimum(counts, values.shape[1])
        self.complete[queries] = counts <= values.shape[1]
