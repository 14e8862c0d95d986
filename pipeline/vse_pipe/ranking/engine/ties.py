"""Which queries a matching answers where scores are equal: wrong items are taken before right ones.

A matching has to choose among equal scores, and which item or query it takes is no merit of the model. What it has chosen is
therefore read as the worst of the choices that it had, whatever the order of items and queries:

- Of items that score the same for a query, the wrong ones come first. A query that holds h of them, of which w are wrong, is
  answered by them only if h > w. With an unlimited quota this is the pessimistic rank of nearest-neighbour search.
- Queries with the same scores throughout can change places. They are dealt out to their places so that the fewest are answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int

from vse_pipe.ranking.engine.matching import MatchedPairs
from vse_pipe.ranking.engine.picked import rows_of
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.metrics.truth import Truth

# Queries of the same scores that are dealt out; of more, all are missed that any of their places would miss.
_DEALT = 1000
# By score, how many of these items are held, or how many wrong ones there are.
Levels = dict[float, int]


@dataclass
class Ties:
    """scores: of all queries that were matched; truth: the same queries and items. Both as ``MatchedPairs`` counts them."""

    scores: Scores
    truth: Truth
    wrong: dict[int, Levels] = field(default_factory=dict)

    def lost(self, pairs: MatchedPairs) -> Int[np.ndarray, " lost"]:
        """Queries that hold a right item by the choice among equal scores alone, ascending."""
        groups = [*_groups(pairs)]
        if not groups:
            return np.empty(0, np.int64)
        members = np.unique(np.concatenate(groups))
        self._count_wrong(members)
        held = _held(pairs, members)
        answered = np.zeros(len(self.truth), bool)
        for group in groups:
            answered[group] = self._answered(group, held)
        return members[~answered[members]]

    def _answered(self, group: Int[np.ndarray, " group"], held: dict[int, Levels]) -> Bool[np.ndarray, " group"]:
        """Of queries with the same scores, which are answered: as many as in the worst case, of those that are at their places."""
        places = [frozenset(held[query].items()) for query in group.tolist()]
        kinds = {place: kind for kind, place in enumerate(dict.fromkeys(places))}
        answers = np.array([[_answers(dict(place), self.wrong[query]) for place in kinds] for query in group.tolist()])
        if len(group) > _DEALT or (answers == answers[:, :1]).all():
            return np.all(answers, axis=1)
        from scipy.optimize import linear_sum_assignment

        every = answers[:, [kinds[place] for place in places]]
        fewest, found = every[linear_sum_assignment(every)].sum(), every.diagonal()
        return found & (found.cumsum() <= fewest)

    def _count_wrong(self, queries: Int[np.ndarray, " queries"]) -> None:
        """Of each query the scores of its right items, and how many wrong ones have them too."""
        new = np.array([query for query in queries.tolist() if query not in self.wrong], np.int64)
        for rows in self.scores.strips():
            some = new[slice(*np.searchsorted(new, [rows.start, rows.stop]))]
            if not len(some):
                continue
            strip = rows_of(self.scores, rows, torch.from_numpy(some - rows.start)).cpu().numpy()
            for query, row in zip(some.tolist(), strip, strict=True):
                right = row[self.truth.items[self.truth.starts[query] : self.truth.starts[query + 1]]]
                levels, times = np.unique(right, return_counts=True)
                alike = [(row == level).sum() - here for level, here in zip(levels, times, strict=True)]
                self.wrong[query] = dict(zip(levels.astype(np.float64).tolist(), map(int, alike), strict=True))


def _groups(pairs: MatchedPairs) -> Iterator[Int[np.ndarray, " group"]]:
    """Queries with the same scores together, and each of the others that holds an item whose score another item has too."""
    order = np.argsort(pairs.same, kind="stable")
    bounds = np.flatnonzero(np.diff(pairs.same[order])) + 1
    together = [group for group in np.split(order, bounds) if len(group) > 1]
    yield from together
    alone = np.unique(pairs.rows[pairs.tied])
    for query in alone[~np.isin(alone, np.concatenate([*together, np.empty(0, np.int64)]))].tolist():
        yield np.array([query])


def _held(pairs: MatchedPairs, queries: Int[np.ndarray, " queries"]) -> dict[int, Levels]:
    held: dict[int, Levels] = {query: {} for query in queries.tolist()}
    some = np.isin(pairs.rows, queries)
    for query, score in zip(pairs.rows[some].tolist(), pairs.scores[some].tolist(), strict=True):
        held[query][score] = held[query].get(score, 0) + 1
    return held


def _answers(held: Levels, wrong: Levels) -> bool:
    return any(held.get(score, 0) > count for score, count in wrong.items())
