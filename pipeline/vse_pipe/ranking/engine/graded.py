"""Scores against graded pairs, block by block."""

from dataclasses import dataclass

import numpy as np

from vse_pipe.ranking.engine.outcome import Depths
from vse_pipe.ranking.engine.picked import Chosen
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.metrics import graded
from vse_pipe.ranking.metrics.graded import Cells
from vse_pipe.ranking.metrics.positions import positions
from vse_pipe.ranking.metrics.ranks import Ties


@dataclass(frozen=True)
class Ranked:
    """rows: of the queries that have a correct item, ascending; correct: how many; ranks: float64, 0-based, of the best of them;
    hits: by K; measures: by column, 0 to 1, with ``graded_ndcg_<K>``."""

    rows: np.ndarray
    correct: np.ndarray
    ranks: np.ndarray
    hits: dict[int, np.ndarray]
    measures: dict[str, np.ndarray]


def rank(scores: Scores, cells: Cells, above: float, ties: Ties, depths: Depths) -> Ranked | None:
    """All items are ranked; those without a grade are wrong. above: as of ``Graded``. None where no query has a correct item."""
    rows = cells.truth(above)[0].judged()
    if not len(rows):
        return None
    own = cells.of(rows)
    (correct, _), (good, grades) = own.truth(above), own.truth(0.0)
    places, good_places, gains = np.empty(len(correct.items)), np.empty(len(good.items)), np.empty(len(good.items))
    asking = Chosen(scores, rows)

    def measured(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        strip = asking.strip(part)
        of_good = positions(strip, part, good, ties), graded.gains(strip, part, good, grades, ties)
        return positions(strip, part, correct, ties), *of_good

    for part, found in asking.each(measured):
        of_part = slice(good.starts[part.start], good.starts[part.stop])
        places[correct.starts[part.start] : correct.starts[part.stop]], good_places[of_part], gains[of_part] = found
    ranks = places[correct.starts[:-1]]
    measures = depths.measures(places, correct.starts)
    measures |= {f"graded_ndcg_{k}": graded.ndcg(good_places, gains, grades, good.starts, k) for k in depths.ndcg}
    return Ranked(rows, np.diff(correct.starts), ranks, depths.hits(ranks), measures)


def of_pairs(scores: Scores, cells: Cells) -> np.ndarray:
    """float64, the score of each graded cell, in their order."""
    rows, places = np.unique(cells.rows, return_inverse=True)
    order, found = np.argsort(places, kind="stable"), np.empty(len(places))
    asking = Chosen(scores, rows)

    def own(part: slice) -> np.ndarray:
        return order[slice(*np.searchsorted(places, (part.start, part.stop), sorter=order))]

    def scored(part: slice) -> np.ndarray:
        chosen = own(part)
        return asking.strip(part).cpu().numpy()[places[chosen] - part.start, cells.columns[chosen]]

    for part, values in asking.each(scored):
        found[own(part)] = values
    return found
