"""Figures of the queries with a correct item only, while all queries are ranked: judgements need not cover every query."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.core.errors import InputError
from pipeline.ranking.engine.matching import MatchedPairs
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.metrics.truth import Truth


class _JudgedRows(Scores):
    """Some rows of other scores, read along the strips of those, so that each is computed once and none changes."""

    def __init__(self, scores: Scores, rows: np.ndarray) -> None:
        super().__init__((len(rows), scores.shape[1]), scores.strip, scores.block, notes=scores.notes)
        self._scores, self._rows = scores, rows
        bounds = ((rows_of, *np.searchsorted(rows, (rows_of.start, rows_of.stop))) for rows_of in scores.strips())
        self._sources = {int(first): (whole, int(last)) for whole, first, last in bounds if first < last}

    def strips(self) -> Iterator[slice]:
        for first, (_, last) in self._sources.items():
            yield slice(first, last)

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        whole, _ = self._sources[rows.start]
        strip = self._scores.strip(whole)
        return strip[torch.from_numpy(self._rows[rows] - whole.start).to(strip.device)]


def judged(scores: Scores, truth: Truth) -> tuple[Scores, Truth]:
    """Both without the queries that have no correct item. Raises InputError when none is left."""
    rows = _rows(truth)
    return (scores, truth) if len(rows) == len(truth) else (_JudgedRows(scores, rows), truth.only_judged())


def judged_pairs(pairs: dict[int, MatchedPairs], truth: Truth) -> tuple[dict[int, MatchedPairs], Truth]:
    """The same of the matchings by K, in which all queries took part."""
    rows = _rows(truth)
    if len(rows) == len(truth):
        return pairs, truth
    kept = {}
    for k, found in pairs.items():
        inside = np.isin(found.rows, rows)
        kept[k] = MatchedPairs(np.searchsorted(rows, found.rows[inside]), found.columns[inside])
    return kept, truth.only_judged()


def _rows(truth: Truth) -> np.ndarray:
    rows = truth.judged()
    if not len(rows):
        raise InputError(f"none of the {len(truth)} queries has a correct item: there is nothing to measure")
    return rows
