"""Figures of two evaluations of the same queries, and how sure their differences are."""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.artifacts.evaluation import DIRECTIONS
from pipeline.core.errors import InputError
from pipeline.ranking.confidence.figures import Address, Figures, sample
from pipeline.ranking.confidence.intervals import centred, interval, p_value
from pipeline.tools.compare import pairing
from pipeline.tools.compare.places import Compared

METRICS = (
    *("r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"),
    *("skew@1", "skew@5", "skew@10", "robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"),
)
ADDRESSES: list[Address] = [(direction, metric) for direction in DIRECTIONS for metric in METRICS]
ADDRESSES += [("rsum",), ("hs_sum",)]
_ROUNDING = 2e-6


@dataclass(frozen=True)
class FigureRow:
    """One figure. interval and p are None where the tables do not allow the figure to be counted again."""

    address: Address
    a: float
    b: float
    interval: list[float] | None
    p: float | None

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a


@dataclass(frozen=True)
class Comparison:
    """a, b: what was compared; images: how many were drawn from, folds together; rows: in the order of
    METRICS, the two sums last."""

    a: Compared
    b: Compared
    images: int
    rows: list[FigureRow]


def compared(a: Compared, b: Compared, resamples: int, seed: int) -> Comparison:
    """Every figure that both have, with the 95% interval and two-sided p-value of the difference under the
    same draws of images for both. Raises InputError when they cannot be paired, or when metrics.json and the
    tables disagree."""
    pairing.check(a, b)
    figures = [Figures.of(one.ranks, one.occurrence) for one in (a, b)]
    estimates = [_known(one, found.estimate()) for one, found in zip((a, b), figures, strict=True)]
    samples = sample(figures, resamples, seed)
    rows = []
    for address in ADDRESSES:
        if all(address in known for known in estimates):
            a_value, b_value = (known[address] for known in estimates)
            drawn = [draws[address] for draws in samples if address in draws]
            rows.append(FigureRow(address, a_value, b_value, *_confidence(address, b_value - a_value, drawn)))
    return Comparison(a, b, sum(figures[0].images().values()), rows)


def _confidence(
    address: Address, difference: float, drawn: list[np.ndarray]
) -> tuple[list[float] | None, float | None]:
    if len(drawn) < 2:
        return None, None
    differences = centred(address, drawn[1] - drawn[0], difference)
    return interval(differences), p_value(differences)


def _known(one: Compared, counted: dict[Address, float]) -> dict[Address, float]:
    """Figures counted from the tables, and from metrics.json those that cannot be: of a matching, hubness."""
    known = {}
    for address in ADDRESSES:
        stated = one.metrics.get(address[0])
        stated = stated.get(address[1]) if len(address) == 2 and isinstance(stated, dict) else stated
        value = counted.get(address, stated)
        if not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            raise InputError(f"{one.name}: metrics.json {'.'.join(address)} is {value!r}, expected a finite number")
        if isinstance(stated, int | float) and not math.isclose(stated, value, rel_tol=1e-6, abs_tol=_ROUNDING):
            raise InputError(
                f"{one.name}: metrics.json has {'.'.join(address)} = {stated}, ranks.parquet and "
                f"occurrence.parquet give {value:.6f}; the files do not belong together, evaluate again"
            )
        known[address] = float(value)
    return known
