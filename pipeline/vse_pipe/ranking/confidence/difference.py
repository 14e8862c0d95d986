"""Figures of two evaluations of the same queries, and how sure their differences are."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.confidence import pairing
from vse_pipe.ranking.confidence.compared import Compared, Method
from vse_pipe.ranking.confidence.figures import Address, Figures, sample, swapped
from vse_pipe.ranking.confidence.repeated import Drawn, Repetitions, Spread, of_difference, of_one

METRICS = (
    *("r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"),
    *("skew@1", "skew@5", "skew@10", "robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"),
)
ADDRESSES: list[Address] = [(direction, metric) for direction in DIRECTIONS for metric in METRICS]
ADDRESSES += [("rsum",), ("hs_sum",)]
SIGNIFICANT = 0.05
_ROUNDING = 2e-6


@dataclass(frozen=True)
class Difference:
    """One figure of every seed of A and of B. doubt: of the mean of B - the mean of A, None where the tables do not allow
    the figure to be counted again."""

    address: Address
    a: Float[np.ndarray, " seeds_a"]
    b: Float[np.ndarray, " seeds_b"]
    doubt: Spread | Drawn | None


@dataclass(frozen=True)
class FigureRow:
    """One figure, the mean where a side has seeds. interval and p are None where the tables do not allow the figure to be
    counted again; holm: p corrected for other B's compared at once; spread: standard deviations over the seeds of A and B."""

    address: Address
    a: float
    b: float
    interval: list[float] | None
    p: float | None
    holm: float | None = None
    spread: tuple[float | None, float | None] = (None, None)

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def decisive(self) -> float | None:
        """The p-value that says whether it is significant."""
        return self.p if self.holm is None else self.holm

    @property
    def significant(self) -> bool:
        return self.decisive is not None and bool(self.decisive < SIGNIFICANT)


@dataclass(frozen=True)
class Comparison:
    """a, b: what was compared; images: how many were drawn from, folds together; rows: in the order of
    METRICS, the two sums last; at_once: how many B's share Holm's correction."""

    a: Method
    b: Method
    images: int
    rows: list[FigureRow]
    at_once: int = 1


def compared(a: Method, b: Method, resamples: int, seed: int) -> Comparison:
    """Every figure that both have, with the 95% interval and two-sided p-value of the difference under the
    same draws of images for both, and where one has several seeds under other seeds too. Raises InputError when they cannot
    be paired, or when metrics.json and the tables disagree."""
    images, found = differences(a, b, resamples, seed)
    rows = []
    for one in found:
        interval, p = (None, None) if one.doubt is None else (one.doubt.interval(), one.doubt.p_value())
        rows.append(
            FigureRow(
                one.address, float(one.a.mean()), float(one.b.mean()), interval, p, spread=(_sd(one.a), _sd(one.b))
            )
        )
    return Comparison(a, b, images, rows)


def _sd(values: np.ndarray) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def paired(a: Method, b: Method) -> bool:
    """Whether seeds go together: both have the same ones."""
    return len(a) > 1 and a.models.keys() == b.models.keys()


def differences(a: Method, b: Method, resamples: int, seed: int) -> tuple[int, list[Difference]]:
    """How many images there are, and what ``compared`` makes its rows of. Raises as it does."""
    seeds = list(a.models)
    models = [*a.models.values(), *(b.models[one] for one in (seeds if paired(a, b) else b.models))]
    for other in models[1:]:
        pairing.check(models[0], other)
    figures = [Figures.of(one.ranks, one.occurrence) for one in models]
    estimates = [_known(one, found.estimate()) for one, found in zip(models, figures, strict=True)]
    samples = sample(figures, resamples, seed)
    changed = swapped(figures[0], figures[1], resamples, seed) if len(models) == 2 else {}
    found = []
    for address in (address for address in ADDRESSES if all(address in known for known in estimates)):
        values = np.array([known[address] for known in estimates])
        draws = np.stack([one[address] for one in samples]) if all(address in one for one in samples) else None
        of_a, of_b = np.split(values, [len(a)])
        doubt: Spread | Drawn | None = None
        if address in changed:
            doubt = Drawn(values[1] - values[0] + changed[address])
        elif draws is not None:
            doubt = _doubt(a, b, values, draws)
        found.append(Difference(address, of_a, of_b, doubt))
    return sum(figures[0].images().values()), found


def _doubt(a: Method, b: Method, values: np.ndarray, draws: np.ndarray) -> Spread | Drawn:
    if len(a) == len(b) == 1:
        return Drawn(draws[1] - draws[0])
    of_a, of_b = (Repetitions(values[part], draws[part]) for part in (slice(len(a)), slice(len(a), None)))
    return of_one(of_b - of_a) if paired(a, b) else of_difference(of_a, of_b)


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
