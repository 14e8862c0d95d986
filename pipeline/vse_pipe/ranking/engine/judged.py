"""Figures of the queries with a correct item only, while all queries are ranked: judgements need not cover every query."""

import numpy as np

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine.matching import MatchedPairs
from vse_pipe.ranking.engine.picked import Chosen
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.metrics.truth import Truth


def judged(scores: Scores, truth: Truth) -> tuple[Scores, Truth]:
    """Both without the queries that have no correct item. Raises InputError when none is left."""
    rows = _rows(truth)
    return (scores, truth) if len(rows) == len(truth) else (Chosen(scores, rows), truth.only_judged())


def judged_pairs(pairs: dict[int, MatchedPairs], truth: Truth) -> tuple[dict[int, MatchedPairs], Truth]:
    """The same of the matchings by K, in which all queries took part."""
    rows = _rows(truth)
    if len(rows) == len(truth):
        return pairs, truth
    kept = {}
    for k, found in pairs.items():
        inside = np.isin(found.rows, rows)
        lost = np.searchsorted(rows, np.intersect1d(found.lost, rows))
        kept[k] = MatchedPairs(np.searchsorted(rows, found.rows[inside]), found.columns[inside], lost)
    return kept, truth.only_judged()


def _rows(truth: Truth) -> np.ndarray:
    rows = truth.judged()
    if not len(rows):
        raise InputError(f"none of the {len(truth)} queries has a correct item: there is nothing to measure")
    return rows
