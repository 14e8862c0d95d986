"""Comparison of evaluations: of two models, or of two methods with one model per seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.intervals import (
    LEVEL,
    Address,
    Figures,
    Sample,
    holm,
    sample,
)

# What ``Compared`` reads.
FILES = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Compared:
    """The evaluation of one model. metrics: metrics.json; ranks, occurrence: the tables."""

    name: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table

    @classmethod
    def read(cls, name: str, folder: Path) -> "Compared":
        """Raises InputError or IntegrityError for files that are missing or damaged."""
        tables = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
        return cls(name, evaluation.read_metrics(folder), *tables)


@dataclass(frozen=True)
class Method:
    """models: by seed, in the order of params.yaml; a run without seeds has one model under the
    empty name. unconverged: by training, why it has not converged."""

    name: str
    models: dict[str, Compared]
    unconverged: dict[str, str] = field(default_factory=dict)

    @property
    def metrics(self) -> dict:
        """metrics.json of the first model; its criterion, bank and protocol hold for all models."""
        return next(iter(self.models.values())).metrics

    @property
    def seeds(self) -> list[int]:
        return [int(seed) for seed in self.models if seed]

    def __len__(self) -> int:
        return len(self.models)


# All trainings of a method rank the same images, so seeds and images are crossed. The variance of
# the mean over S seeds is (variance between the S figures) / S, due to seeds and interaction, plus
# the covariance of two seeds' figures over draws of images (Obuchowski and Rockette, Communications
# in Statistics 24, 1995; below 0 it counts as 0). The t quantile has the seeds' degrees of freedom
# (Welch's for different seeds), divided by their share in the variance: intervals cover 94% to 96%
# (simulation: docs/experiments.md).


@dataclass(frozen=True)
class Repetitions:
    """A figure of a method. values: of each seed; draws: of each seed, the same images."""

    values: Float[np.ndarray, " seeds"]
    draws: Float[np.ndarray, "seeds draws"]

    def __len__(self) -> int:
        return len(self.values)

    def __sub__(self, right: "Repetitions") -> "Repetitions":
        """Seed by seed; both have the same seeds in the same order."""
        return Repetitions(self.values - right.values, self.draws - right.draws)

    @property
    def between(self) -> float:
        """The variance of the mean due to seeds; 0 for a single seed."""
        return float(np.var(self.values, ddof=1)) / len(self) if len(self) > 1 else 0.0

    @property
    def images(self) -> float:
        """The covariance over the draws, the mean over pairs of seeds; else its variance."""
        of_mean = np.var(self.draws.mean(axis=0), ddof=1)
        of_seed = np.var(self.draws, axis=1, ddof=1).mean()
        seeds = len(self)
        return float((seeds * of_mean - of_seed) / (seeds - 1)) if seeds > 1 else float(of_seed)


@dataclass(frozen=True)
class Spread:
    """mean: over seeds, or the difference of two means; error: its standard error; freedom: degrees
    of freedom of the t distribution of (mean - truth) / error, infinite where seeds have no part in
    the error."""

    mean: float
    error: float
    freedom: float

    def interval(self) -> list[float]:
        """[low, high] of 95%, equal tails."""
        from scipy.special import stdtrit  # 0.1 s that `report` need not spend

        away = float(stdtrit(min(self.freedom, 1e9), (1 + LEVEL) / 2)) * self.error
        return [self.mean - away, self.mean + away]

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided, for the truth ``null``: below 5% where the interval excludes it."""
        if self.error == 0:
            return float(self.mean == null)
        from scipy.special import stdtr

        return float(2 * stdtr(min(self.freedom, 1e9), -abs(self.mean - null) / self.error))


def figure_spread(method: Repetitions) -> Spread:
    """The spread of a method's figure, or of a difference paired by seed."""
    return _spread(float(method.values.mean()), [method], method.images)


def difference_spread(a: Repetitions, b: Repetitions) -> Spread:
    """The spread of B - A with different seeds, the same images (Welch's variance)."""
    together = np.cov(a.draws.mean(axis=0), b.draws.mean(axis=0))[0, 1]
    mean = float(b.values.mean() - a.values.mean())
    return _spread(mean, [a, b], a.images + b.images - 2 * float(together))


def _spread(mean: float, methods: list[Repetitions], images: float) -> Spread:
    parts = np.array([method.between for method in methods])
    seeds = float(parts.sum())
    variance = seeds + max(images, 0.0)
    doubt = sum(part**2 / (len(method) - 1) for part, method in zip(parts, methods, strict=True) if part)
    return Spread(mean, variance**0.5, float(seeds * variance / doubt) if doubt else np.inf)


def spreads(evaluations: Sequence[Figures], resamples: int, seed: int) -> dict[Address, Spread]:
    """The spread of every figure that all evaluations of a method have, one per seed of the same
    images. Raises as ``sample``."""
    estimates = [figures.estimate() for figures in evaluations]
    samples = sample(evaluations, resamples, seed)
    return {
        address: figure_spread(_repetitions(address, estimates, samples))
        for address in estimates[0]
        if all(address in row for row in estimates) and all(address in draws for draws in samples)
    }


def _repetitions(address: Address, estimates: Sequence[dict], samples: Sequence[Sample]) -> Repetitions:
    return Repetitions(np.array([row[address] for row in estimates]), np.stack([row[address] for row in samples]))


METRICS = (
    *("r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"),
    *("skew@1", "skew@5", "skew@10", "robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"),
)
ADDRESSES: list[Address] = [(direction, metric) for direction in evaluation.DIRECTIONS for metric in METRICS]
ADDRESSES += [("rsum",), ("hs_sum",)]
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Difference:
    """One figure of every seed of A and of B. doubt: of mean B - mean A, None where the tables do
    not define it; holm: p corrected for several B's."""

    address: Address
    a_values: Float[np.ndarray, " seeds_a"]
    b_values: Float[np.ndarray, " seeds_b"]
    doubt: Spread | None
    holm: float | None = None

    @property
    def a(self) -> float:
        return float(self.a_values.mean())

    @property
    def b(self) -> float:
        return float(self.b_values.mean())

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def deviations(self) -> tuple[float | None, float | None]:
        """Standard deviations over the seeds of A and of B, None for a single one."""
        a, b = (float(np.std(values, ddof=1)) if len(values) > 1 else None for values in (self.a_values, self.b_values))
        return a, b

    @cached_property
    def interval(self) -> list[float] | None:
        return None if self.doubt is None else self.doubt.interval()

    @cached_property
    def p(self) -> float | None:
        """None for what the tables do not define."""
        return None if self.doubt is None else self.doubt.p_value()

    @property
    def decisive(self) -> float | None:
        """The p-value that decides significance."""
        return self.p if self.holm is None else self.holm

    @property
    def significant(self) -> bool:
        return self.decisive is not None and bool(self.decisive < SIGNIFICANT)


@dataclass(frozen=True)
class Comparison:
    """images: number of images over all folds; rows: in the order of METRICS, the two sums last;
    at_once: number of B's that share Holm's correction."""

    a: Method
    b: Method
    images: int
    rows: list[Difference]
    at_once: int = 1

    @property
    def is_paired(self) -> bool:
        """Whether both have the same seeds, which are then compared seed by seed."""
        return len(self.a) > 1 and self.a.models.keys() == self.b.models.keys()


def compare(a: Method, b: Method, resamples: int, seed: int) -> Comparison:
    """Every figure that both have, with the 95% interval and the two-sided p-value of B - A under
    the same draws of images, and of seeds where a side has several. Raises InputError when they
    cannot be paired."""
    comparison = Comparison(a, b, 0, [])
    models = [*a.models.values(), *(b.models[name] for name in (a.models if comparison.is_paired else b.models))]
    for model in models[1:]:
        _require_same_queries(models[0], model)
    figures = [Figures.from_tables(model.ranks, model.occurrence) for model in models]
    estimates = [_figures(model, rows.estimate()) for model, rows in zip(models, figures, strict=True)]
    samples = sample(figures, resamples, seed)
    rows = []
    for address in (address for address in ADDRESSES if all(address in estimate for estimate in estimates)):
        a_values, b_values = np.split(np.array([estimate[address] for estimate in estimates]), [len(a)])
        doubt: Spread | None = None
        if all(address in draws for draws in samples):
            left = _repetitions(address, estimates[: len(a)], samples[: len(a)])
            right = _repetitions(address, estimates[len(a) :], samples[len(a) :])
            is_paired = comparison.is_paired or len(a) == len(b) == 1
            doubt = figure_spread(right - left) if is_paired else difference_spread(left, right)
        rows.append(Difference(address, a_values, b_values, doubt))
    return replace(comparison, images=sum(figures[0].images().values()), rows=rows)


def corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """Comparisons of several B's with one A, with Holm's p-values. A family is one figure under one
    criterion over all B's."""
    families: dict[tuple, list[tuple[int, int]]] = {}
    for number, comparison in enumerate(comparisons):
        for place, row in enumerate(comparison.rows):
            if row.p is not None:
                inferences = (side.metrics.get("inference") for side in (comparison.a, comparison.b))
                families.setdefault((*row.address, *inferences), []).append((number, place))
    rows = [list(comparison.rows) for comparison in comparisons]
    for family in families.values():
        p_values = holm([rows[number][place].p or 0.0 for number, place in family])
        for (number, place), p in zip(family, p_values, strict=True):
            rows[number][place] = replace(rows[number][place], holm=p)
    at_once = len({comparison.b.name for comparison in comparisons})
    return [replace(item, rows=new, at_once=at_once) for item, new in zip(comparisons, rows, strict=True)]


_KEYS = {
    "queries": ("direction", "fold", "query_id", "image_id", "query_name"),
    "items": ("direction", "fold", "item_id", "item_name"),
}


def _require_same_queries(a: Compared, b: Compared) -> None:
    """Raises InputError where data, protocol, queries, their images, or items differ."""
    names = f"{a.name} and {b.name} cannot be compared"
    for key in ("split", "protocol", "ties", "data"):
        first, second = a.metrics.get(key), b.metrics.get(key)
        if first != second:
            raise InputError(f"{names}: {key} is {first!r} in the first, {second!r} in the second")
    for kind, tables in {"queries": (a.ranks, b.ranks), "items": (a.occurrence, b.occurrence)}.items():
        left, right = (_keys(table, _KEYS[kind]) for table in tables)
        if not left.equals(right):
            raise InputError(f"{names}: {len(left)} and {len(right)} {kind}, which are not the same")


def _keys(table: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """The rows in one order. Text ids are named, whose numbers mean nothing elsewhere."""
    frame = table.select([name for name in columns if name in table.column_names]).to_pandas()
    return frame.sort_values(list(columns[:3])).reset_index(drop=True).reindex(columns=columns, fill_value="")


def _figures(model: Compared, counted: dict[Address, float]) -> dict[Address, float]:
    """Figures from the tables; else from metrics.json, as a matching's hubness."""
    figures = {}
    for address in ADDRESSES:
        stated = model.metrics
        for key in address:
            stated = stated.get(key, {})
        value = counted.get(address, stated)
        if isinstance(value, int | float) and math.isfinite(value):
            figures[address] = float(value)
    return figures
