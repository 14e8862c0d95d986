"""Scores in another order of their items, and some rows of them."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.ranking.engine.scores import Scores


class Shuffled(Scores):
    """Scores whose items come in another order: item j here is item ``order[j]`` of ``base``."""

    def __init__(self, base: Scores, order: Int[np.ndarray, " items"]) -> None:
        self.base, self.order = base, order
        super().__init__(base.shape, self._gathered, base.block, notes=base.notes, along=base)

    def _gathered(self, rows: slice) -> Tensor:
        strip = self.base.strip(rows)
        return strip[:, torch.from_numpy(self.order).to(strip.device)]


def rows_of(scores: Scores, rows: slice, chosen: Int[Tensor, " some"]) -> Float[Tensor, "some items"]:
    """Some rows of a strip: of shuffled scores their items are moved and no others."""
    if not isinstance(scores, Shuffled):
        strip = scores.strip(rows)
        return strip[chosen.to(strip.device)]
    some = rows_of(scores.base, rows, chosen)
    return some[:, torch.from_numpy(scores.order).to(some.device)]


class Chosen(Scores):
    """Some rows of other scores, ascending, read along the strips of those, so that each is computed once and none changes."""

    def __init__(self, base: Scores, rows: Int[np.ndarray, " rows"]) -> None:
        super().__init__((len(rows), base.shape[1]), base.strip, base.block, notes=base.notes, stored=base._stored)
        self._base, self._rows = base, rows
        bounds = ((rows_of, *np.searchsorted(rows, (rows_of.start, rows_of.stop))) for rows_of in base.strips())
        self._sources = {int(first): (whole, int(last)) for whole, first, last in bounds if first < last}

    def strips(self) -> Iterator[slice]:
        for first, (_, last) in self._sources.items():
            yield slice(first, last)

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        whole, _ = self._sources[rows.start]
        strip = self._base.strip(whole)
        return strip[torch.from_numpy(self._rows[rows] - whole.start).to(strip.device)]
