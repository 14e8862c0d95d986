"""Greedy matching with quotas, without sorting all pairs.

Algorithm 1 of the RGM paper sorts every (query, item) pair and accepts pairs from the top. Under scores shared by both
sides the accepted pairs are the one stable assignment with those quotas. Deferred acceptance finds it from each query's
best candidates; a query whose list is used up gets the next items that may still accept it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import per_row, spans
from vse_pipe.ranking.inference.options import Mode
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores, rows_of
from vse_pipe.ranking.tiles import best_of, top_k

FIRST_CANDIDATES = 128
FETCHED_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class Allowance:
    """k: items a query may take (the K of R@K); lam: the relaxation factor lambda, which scales an item's quota."""

    k: int
    lam: float = 1.0

    def quota(self, queries: int, items: int, mode: Mode) -> int:
        """The number of queries an item may serve; halves round to even."""
        return round(self.lam * self.k * (1 if mode == "literal" else max(1, queries / items)))


@dataclass(frozen=True)
class MatchedPairs:
    """rows, columns: query and item of each matched pair in the order of Algorithm 1. lost: queries that count as
    missed although they have a correct item; ``TiedChoices`` finds them from the other fields. scores: of the pairs; tied:
    another item may have the same score for that query; same: a number, equal for queries with equal scores."""

    rows: Int[np.ndarray, " pairs"]
    columns: Int[np.ndarray, " pairs"]
    lost: Int[np.ndarray, " lost"] = field(default_factory=lambda: np.empty(0, np.int64))
    scores: Float[np.ndarray, "*pairs"] = field(default_factory=lambda: np.empty(0))
    tied: Bool[np.ndarray, "*pairs"] = field(default_factory=lambda: np.empty(0, bool))
    same: Int[np.ndarray, "*queries"] = field(default_factory=lambda: np.empty(0, np.int64))

    def counted(self) -> Bool[np.ndarray, " pairs"]:
        """False for pairs of lost queries."""
        return ~np.isin(self.rows, self.lost) if len(self.lost) else np.ones(len(self.rows), bool)


@dataclass(frozen=True)
class _Lists:
    """The best items of each query, best first: scores float64, items int32."""

    scores: Float[np.ndarray, "queries best"]
    items: Int[np.ndarray, "queries best"]
    complete: bool

    @cached_property
    def same(self) -> Int[np.ndarray, " queries"]:
        """A number for each query, equal for queries with the same list."""
        both = np.ascontiguousarray(np.hstack([(self.scores + 0.0).view(np.int64), self.items]))
        return np.unique(both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel(), return_inverse=True)[1]

    @cached_property
    def _repeated(self) -> Bool[np.ndarray, "queries best"]:
        equal = self.scores[:, 1:] == self.scores[:, :-1]
        edge = np.zeros((len(equal), 1), bool)
        return np.hstack([equal, edge]) | np.hstack([edge, equal])

    def tied(self, rows: Int[np.ndarray, " pairs"], scores: Float[np.ndarray, " pairs"]) -> Bool[np.ndarray, " pairs"]:
        """Whether another item may have this score for this query; unknown beyond the end of a list."""
        is_tied = (scores <= self.scores[rows, -1]) & (not self.complete)
        unsure = np.flatnonzero(~is_tied & np.any(self._repeated, axis=1)[rows])
        of_row = rows[unsure]
        is_tied[unsure] = ((self.scores[of_row] == scores[unsure, None]) & self._repeated[of_row]).any(axis=1)
        return is_tied


def greedy(scores: Scores, settings: Sequence[Allowance], mode: Mode) -> Iterator[MatchedPairs]:
    """The pairs that Algorithm 1 accepts under each setting; ties go to the lowest (row, column).

    rows: an item's quota is round(lambda k max(1, queries / items)); the algorithm ends when every query has k items or
    no pair is left. literal: as printed, quota round(lambda k), cut at min(queries, items) k pairs. captions: as rows;
    ``Criterion.match`` splits the queries."""
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
        return MatchedPairs(np.empty(0, np.int64), np.empty(0, np.int64), same=lists.same)
    rows, columns, values = _Assignment(scores, lists, k, quota).solve()
    order = _best_first(values, rows, columns)
    if mode == "literal":
        order = order[: min(scores.shape) * k]
    rows, columns, values = rows[order], columns[order], values[order]
    return MatchedPairs(rows, columns, scores=values, tied=lists.tied(rows, values), same=lists.same)


def _best_first(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The order by descending value, then row and column: ``lexsort`` restricted to equal values, which are few."""
    order = np.argsort(-values)
    equal = np.diff(values[order]) == 0
    tied = np.concatenate([equal, [False]]) | np.concatenate([[False], equal])
    places = order[tied]
    order[tied] = places[np.lexsort((columns[places], rows[places], -values[places]))]
    return order


def _first_candidates(scores: Scores) -> _Lists:
    shape = scores.shape[0], min(FIRST_CANDIDATES, scores.shape[1])
    values, columns = np.empty(shape), np.empty(shape, np.int32)
    for rows, (best, places) in scores.over_strips(lambda rows: best_of(scores, rows, FIRST_CANDIDATES)):
        if not best.isfinite().all():
            raise InputError("scores hold NaN or infinite values and cannot be matched")
        values[rows], columns[rows] = best.double().cpu().numpy(), places.int().cpu().numpy()
    return _Lists(values, columns, shape[1] == scores.shape[1])


class _Assignment:
    """State of the proposals: a heap per item, the unused rest of a candidate list per query.

    The list of query q lies in ``listed_scores`` and ``listed_items`` from ``position[q]`` to ``end[q]``;
    ``last_score`` and ``last_item`` are its last entry, also after the list is used up; ``complete[q]``: no further
    item can be added."""

    def __init__(self, scores: Scores, lists: _Lists, k: int, quota: int) -> None:
        queries, items = scores.shape
        self.scores, self.k = scores, k
        self.listed_scores, self.listed_items = lists.scores.ravel(), lists.items.ravel()
        self.position = np.arange(queries, dtype=np.int64) * lists.scores.shape[1]
        self.end = self.position + lists.scores.shape[1]
        self.last_score, self.last_item = lists.scores[:, -1].copy(), lists.items[:, -1].copy()
        self.complete = np.full(queries, lists.complete)
        self.filled = np.zeros(queries, np.int64)
        self.heap_scores = np.empty((items, quota))
        self.heap_rows = np.empty((items, quota), np.int32)
        self.heap_sizes = np.zeros(items, np.int32)

    def solve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and scores of the matched pairs, unordered."""
        self._propose()
        while len(dry := np.flatnonzero((self.filled < self.k) & (self.position == self.end) & ~self.complete)):
            self._extend(dry)
            self._propose()
        is_occupied = np.arange(self.heap_rows.shape[1]) < self.heap_sizes[:, None]
        columns = np.repeat(np.arange(len(self.heap_sizes)), self.heap_sizes)
        return self.heap_rows[is_occupied].astype(np.int64), columns, self.heap_scores[is_occupied]

    def _propose(self) -> None:
        from vse_pipe.ranking.kernels import propose

        lists, heaps = (self.listed_scores, self.listed_items), (self.heap_scores, self.heap_rows, self.heap_sizes)
        propose(*lists, self.position, self.end, self.filled, self.k, *heaps)

    def _extend(self, dry: np.ndarray) -> None:
        """Give the ``dry`` queries further candidates; drop used entries of all lists."""
        width = min(max(FETCHED_AT_ONCE // len(dry), FIRST_CANDIDATES), self.scores.shape[1])
        parts = []
        for rows in self.scores.strips():
            of_strip = slice(*np.searchsorted(dry, [rows.start, rows.stop]))
            if of_strip.start < of_strip.stop:
                parts.append(self._still_winnable(rows, dry[of_strip], width))
        values, items, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.complete[dry] = counts <= width
        unused = spans(self.position, self.end - self.position)
        self.listed_scores = np.concatenate([self.listed_scores[unused], values])
        self.listed_items = np.concatenate([self.listed_items[unused], items])
        lengths = self.end - self.position
        self.end = lengths.cumsum()
        lengths[dry] = np.minimum(counts, width)
        self.end[dry] = len(unused) + lengths[dry].cumsum()
        self.position = self.end - lengths
        extended = dry[counts > 0]
        self.last_score[extended] = self.listed_scores[self.end[extended] - 1]
        self.last_item[extended] = self.listed_items[self.end[extended] - 1]

    def _still_winnable(
        self, rows: slice, queries: np.ndarray, width: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For queries of one strip the best ``width`` items beyond their lists that may accept them: scores and items,
        flat, and the number of all such items. An item never accepts later what it refuses now."""
        strip = rows_of(self.scores, rows, torch.from_numpy(queries - rows.start))
        columns = torch.arange(strip.shape[1], device=strip.device)

        def on_device(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(strip.device)

        last_score = on_device(self.last_score[queries]).to(strip)[:, None]
        last_item = on_device(self.last_item[queries])[:, None]
        unlisted = (strip < last_score) | ((strip == last_score) & (columns > last_item))
        full = self.heap_sizes == self.heap_rows.shape[1]
        bar = on_device(np.where(full, self.heap_scores[:, 0], -np.inf)).to(strip)
        winnable = unlisted & (strip >= bar)
        values, items = top_k(strip.masked_fill(~winnable, -torch.inf), width)
        counts = per_row(winnable)
        chosen = torch.arange(values.shape[1], device=strip.device) < counts[:, None]
        return values[chosen].double().cpu().numpy(), items[chosen].int().cpu().numpy(), counts.cpu().numpy()


# A matching has to choose among equal scores, which says nothing about the model. Its choice is therefore read as the
# worst possible choice, whatever the order of items and queries:
#
# - Among items with the same score for a query, the wrong ones come first. A query that has h of these items
#   is answered by them only if h > w, the number of wrong ones. With an unlimited quota this is the pessimistic rank.
# - Queries with the same scores can change places. They are assigned to their places so that the fewest are answered.
#   Of more queries than ``_DEALT``, all are missed that any of their places would miss.
_DEALT = 1000
# By score, the number of items that a query holds, or the number of wrong items.
Levels = dict[float, int]


@dataclass
class TiedChoices:
    """scores: of all matched queries; truth: the same queries and items. Both are numbered as in ``MatchedPairs``."""

    scores: Scores
    truth: Truth
    wrong: dict[int, Levels] = field(default_factory=dict)

    def lost(self, pairs: MatchedPairs) -> Int[np.ndarray, " lost"]:
        """Queries that have a correct item only by a choice among equal scores, ascending."""
        groups = [*_groups(pairs)]
        if not groups:
            return np.empty(0, np.int64)
        members = np.unique(np.concatenate(groups))
        self._count_wrong(members)
        levels = _levels(pairs, members)
        answered = np.zeros(len(self.truth), bool)
        for group in groups:
            answered[group] = self._answered(group, levels)
        return members[~answered[members]]

    def _answered(self, group: Int[np.ndarray, " group"], levels: dict[int, Levels]) -> Bool[np.ndarray, " group"]:
        """The answered queries of a group with equal scores: as many as in the worst case, at their places."""
        places = [frozenset(levels[query].items()) for query in group.tolist()]
        kinds = {place: kind for kind, place in enumerate(dict.fromkeys(places))}
        answers = np.array([[_answers(dict(place), self.wrong[query]) for place in kinds] for query in group.tolist()])
        if len(group) > _DEALT or (answers == answers[:, :1]).all():
            return np.all(answers, axis=1)
        from scipy.optimize import linear_sum_assignment

        by_place = answers[:, [kinds[place] for place in places]]
        fewest, actual = by_place[linear_sum_assignment(by_place)].sum(), by_place.diagonal()
        return actual & (actual.cumsum() <= fewest)

    def _count_wrong(self, queries: Int[np.ndarray, " queries"]) -> None:
        """Cache, for each query, the scores of its correct items and the number of wrong items with each of them."""
        new = np.array([query for query in queries.tolist() if query not in self.wrong], np.int64)
        for rows in self.scores.strips():
            missing = new[slice(*np.searchsorted(new, [rows.start, rows.stop]))]
            if not len(missing):
                continue
            strip = rows_of(self.scores, rows, torch.from_numpy(missing - rows.start)).cpu().numpy()
            for query, row in zip(missing.tolist(), strip, strict=True):
                right = row[self.truth.items[self.truth.starts[query] : self.truth.starts[query + 1]]]
                levels, counts = np.unique(right, return_counts=True)
                wrong = [(row == level).sum() - count for level, count in zip(levels, counts, strict=True)]
                self.wrong[query] = dict(zip(levels.astype(np.float64).tolist(), map(int, wrong), strict=True))


def _groups(pairs: MatchedPairs) -> Iterator[Int[np.ndarray, " group"]]:
    """Groups of queries with equal scores, and single queries with an item that ties with another item."""
    order = np.argsort(pairs.same, kind="stable")
    together = [group for group in np.split(order, np.flatnonzero(np.diff(pairs.same[order])) + 1) if len(group) > 1]
    yield from together
    singles = np.unique(pairs.rows[pairs.tied])
    for query in singles[~np.isin(singles, np.concatenate([*together, np.empty(0, np.int64)]))].tolist():
        yield np.array([query])


def _answers(levels: Levels, wrong: Levels) -> bool:
    return any(levels.get(score, 0) > count for score, count in wrong.items())


def _levels(pairs: MatchedPairs, queries: Int[np.ndarray, " queries"]) -> dict[int, Levels]:
    levels: dict[int, Levels] = {query: {} for query in queries.tolist()}
    is_chosen = np.isin(pairs.rows, queries)
    for query, score in zip(pairs.rows[is_chosen].tolist(), pairs.scores[is_chosen].tolist(), strict=True):
        levels[query][score] = levels[query].get(score, 0) + 1
    return levels
