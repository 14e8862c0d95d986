"""The nearest items of each query, as an approximate index finds them: which is approximate, their scores are exact."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Int32
from torch import Tensor

from vse_pipe.ranking.compiled import listed
from vse_pipe.ranking.engine.bank import ItemBias
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.threads import over_rows
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.truth import Truth

Queries = Float32[np.ndarray, "queries dim"]
Items = Float32[np.ndarray, "items dim"]
# Queries that an index is asked at once.
_TOGETHER = 1 << 12


@dataclass(frozen=True)
class Nearest:
    """The inner products of each query and the items that were found for it, best first, equal ones by ascending column; column -1
    and -inf where fewer were found. queries, items: the vectors."""

    queries: Queries
    items: Items
    columns: Int32[np.ndarray, "queries listed"]
    scores: Float32[np.ndarray, "queries listed"]

    @classmethod
    def of(cls, index: Any, queries: Queries, items: Items, listed: int) -> "Nearest":
        columns = np.empty((len(queries), min(listed, len(items))), np.int32)
        for start in range(0, len(queries), _TOGETHER):
            rows = slice(start, start + _TOGETHER)
            columns[rows] = index.search(np.ascontiguousarray(queries[rows]), columns.shape[1])[1]
        starts = np.arange(len(queries) + 1) * columns.shape[1]
        scores = _scored(queries, items, starts, columns.ravel()).reshape(columns.shape)
        return cls(queries, items, *_ordered(columns, scores))

    def under(self, bias: ItemBias) -> "Nearest":
        """In the order of corrected scores."""
        columns, scores = _ordered(self.columns.copy(), bias.at(self.scores, self.columns))
        return replace(self, columns=columns, scores=scores)

    def ranks(self, truth: Truth, bias: ItemBias, ties: Ties) -> Float[np.ndarray, " queries"]:
        """0-based places of each query's best correct item among what was found and itself, at most its rank among all items. Of
        ``under(bias)``; every query has a correct item."""
        right = bias.at(_scored(self.queries, self.items, truth.starts, truth.items), truth.items)
        above, alike = np.zeros((2, len(truth)), np.int64)

        def part(start: int, stop: int) -> None:
            listed.ranks(self.scores, self.columns, truth.starts, truth.items, right, above, alike, start, stop)

        over_rows(part, len(truth))
        return above + {"optimistic": 0.0, "average": 0.5, "pessimistic": 1.0}[ties] * alike

    def filled(self) -> "Nearest":
        """With any other items where fewer were found: a mean over the best of a query is at most that over all items, and it has as
        many terms."""
        columns, scores = self.columns.copy(), self.scores.copy()
        short = np.flatnonzero((columns < 0).any(axis=1))
        for start in range(0, len(short), _TOGETHER):
            rows = short[start : start + _TOGETHER]
            some = columns[rows]
            taken = (some[:, :, None] == np.arange(some.shape[1])).any(axis=1)
            others, missing = taken.argsort(axis=1, kind="stable"), some < 0
            some[missing] = np.take_along_axis(others, missing.cumsum(axis=1) - missing, 1)[missing]
            starts = np.arange(len(rows) + 1) * some.shape[1]
            known = _scored(self.queries[rows], self.items, starts, some.ravel()).reshape(some.shape)
            columns[rows], scores[rows] = _ordered(some, known)
        return replace(self, columns=columns, scores=scores)

    def only(self, rows: Int[np.ndarray, " some"]) -> "Nearest":
        """Of some queries."""
        return replace(self, queries=self.queries[rows], columns=self.columns[rows], scores=self.scores[rows])


class NearestScores(Scores):
    """Stands for the scores of a bank whose nearest neighbours were found either way. There is nothing else of it."""

    def __init__(self, one: Nearest, other: Nearest) -> None:
        def none(rows: slice) -> Tensor:
            raise ValueError("an approximate index knows the nearest neighbours alone")

        super().__init__((len(one.queries), len(one.items)), none)
        self._one, self._other, self.known_means = one, other, self._means

    def transposed(self) -> "NearestScores":
        return NearestScores(self._other, self._one)

    def _means(self, k: int) -> Float[Tensor, " queries"]:
        """Of what was found, at most that of all items: of ``filled()``, or one with fewer terms could be above it."""
        return torch.from_numpy(self._one.scores[:, :k].mean(axis=1))


def _scored(
    queries: Queries, items: Items, starts: Int[np.ndarray, " bounds"], columns: Int[np.ndarray, " pairs"]
) -> Float32[np.ndarray, " pairs"]:
    found = np.empty(len(columns), np.float32)
    over_rows(lambda start, stop: listed.scored(queries, items, starts, columns, found, start, stop), len(queries))
    return found


def _ordered(columns: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows at a time: what is sorted by is as large as both."""
    for start in range(0, len(columns), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        order = np.lexsort((columns[rows], -scores[rows]))
        columns[rows], scores[rows] = (np.take_along_axis(of[rows], order, 1) for of in (columns, scores))
    return columns, scores
