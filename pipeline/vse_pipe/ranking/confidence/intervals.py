"""Bootstrap intervals over queries, images drawn with their captions.

What varies is the set of queries; the items to choose from stay as they are. An image and its captions are
drawn together (a cluster bootstrap: Davison and Hinkley, Bootstrap Methods and their Application, 1997,
section 3.8), since five captions of one image are not five independent queries.

Means over queries, the median rank and rsum get the percentile interval. Hubness cannot: a draw repeats some
queries and lacks others, so its N_k vary twice as much as those of a new set of queries would, and skewness,
Gini index, anti-hubs and the like are shifted far beyond their spread. The percentile interval, and the basic
one, which reflects that shift, miss the expected figure of a new set of as many queries: in simulations (200
to 1,000 images, 1,000 to 5,000 items, k = 1 and 10) they covered it in 0% to 98% of the cases for skewness,
in at most 20% for the Gini and Robin Hood indexes and in none for anti-hubs. The spread of the draws is about
right, so hubness gets the draws moved to have their median at the estimate. Their percentiles covered it in
93% to 98% (skewness), 96% to 98% (largest hub) and 82% to 100% (the other three; least at k = 1 with hardly
any hubs). The difference of two models has an exact test instead: ``figures.swapped``.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.ranking.confidence.figures import Address, Figures, sample

HUBNESS = ("skew@", "robin_hood@", "gini@", "anti_hubs@", "largest_hub@", "hs_sum")
_SHARES = dict.fromkeys(("robin_hood@", "gini@"), (0.0, 1.0))
_PERCENT = dict.fromkeys(("anti_hubs@", "r@", "mrr", "map", "r_precision", "ndcg@"), (0.0, 100.0))
_LIMITS = {**_SHARES, **_PERCENT, "largest_hub@": (0.0, np.inf), "rsum": (0.0, 600.0), "m": (1.0, np.inf)}
Draws = Float[np.ndarray, " draws"]


def intervals(
    ranks: pa.Table, occurrence: pa.Table, resamples: int, seed: int, level: float = 0.95
) -> dict[str, dict[str, list[float]] | list[float]]:
    """``{direction: {metric: [low, high]}, "rsum": [low, high], "hs_sum": [low, high]}`` in the units of
    metrics.json.

    ranks, occurrence: as ``vse_pipe.artifacts.evaluation`` reads them; resamples: how many draws; level: the
    share of them inside. Each fold draws among its own images. Absent are, for a matching, the metrics that
    need a rank and those of hubness: which queries an item gets depends there on all queries at once, so it
    cannot be counted for drawn ones. What a criterion learnt from a bank of queries stays as it was too.
    Raises InputError when the tables do not belong together.
    """
    figures = Figures.of(ranks, occurrence)
    (draws,) = sample([figures], resamples, seed)
    found: dict = {}
    for address, value in figures.estimate().items():
        if address not in draws:
            continue
        nest(found, address, within(address, interval(centred(address, draws[address], value), level)))
    return found


def within(address: Address, ends: list[float]) -> list[float]:
    """An interval, cut where the figure can lie no further out."""
    lowest, highest = next((_LIMITS[name] for name in _LIMITS if address[-1].startswith(name)), (-np.inf, np.inf))
    return [max(ends[0], lowest), min(ends[1], highest)]


def centred(address: Address, draws: Draws, estimate: float) -> Draws:
    """Draws whose percentiles are an interval: of hubness moved to have their median at the estimate, others
    as they are."""
    return draws - np.median(draws) + estimate if address[-1].startswith(HUBNESS) else draws


def interval(draws: Draws, level: float = 0.95) -> list[float]:
    """[low, high], the equal-tailed percentiles that hold ``level`` of the draws."""
    return np.quantile(draws, [(1 - level) / 2, (1 + level) / 2]).tolist()


def p_value(differences: Draws) -> float:
    """Two-sided: min(1, 2 (1 + the smaller of how many draws are <= 0 and >= 0) / (1 + draws)), never 0.

    Twice the tail that the percentile interval leaves on the other side of no difference, so that the two
    agree; counting the observed difference as one more draw keeps it valid (Davison and Hinkley, 1997,
    section 4.2).
    """
    beyond = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2.0 * (1 + beyond) / (1 + len(differences)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected for how many there are, in their order: the i-th smallest of n times n - i + 1, never below one before it.

    Of true hypotheses none is then rejected at level a with probability 1 - a, however they depend on each other (Holm,
    Scandinavian Journal of Statistics 6, 1979).
    """
    found, most, count = [0.0] * len(p_values), 0.0, len(p_values)
    for place, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        most = max(most, min(1.0, (count - place) * p_values[index]))
        found[index] = most
    return found


def nest(found: dict, address: Address, value: object) -> None:
    """Set ``found[direction][metric]``, or ``found[name]`` for a sum over both directions."""
    for name in address[:-1]:
        found = found.setdefault(name, {})
    found[address[-1]] = value
