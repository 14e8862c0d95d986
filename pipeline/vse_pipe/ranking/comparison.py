"""Comparison of evaluations: of two models, or of two methods with one model per seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.artifacts import evaluation
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.intervals import HUBNESS, Address, Figures, Sample, centred, interval, p_value, sample


@dataclass(frozen=True)
class Compared:
    """The evaluation of one model. metrics: metrics.json; ranks, occurrence: the tables."""

    name: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table

    @classmethod
    def read(cls, name: str, folder: Path) -> "Compared":
        """Raises InputError or IntegrityError for files that are missing, of an older version or damaged."""
        ranks, occurrence = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
        if "image_id" not in ranks.column_names:
            raise InputError(f"{folder / evaluation.RANKS}: column 'image_id' (int64) is missing; evaluate again")
        return cls(name, evaluation.read_metrics(folder), ranks, occurrence)


@dataclass(frozen=True)
class Method:
    """models: by seed, in the order of params.yaml; a run without seeds has one model under the empty name. unconverged:
    by training, why it has not converged."""

    name: str
    models: dict[str, Compared]
    unconverged: dict[str, str] = field(default_factory=dict)

    @classmethod
    def single(cls, model: Compared) -> "Method":
        return cls(model.name, {"": model})

    @property
    def metrics(self) -> dict:
        """metrics.json of the first model; its criterion, bank and protocol hold for all models."""
        return next(iter(self.models.values())).metrics

    def __len__(self) -> int:
        return len(self.models)


def check(a: Compared, b: Compared) -> None:
    """Raises InputError with the first difference in protocol, data, queries, their images, or items."""
    names = f"{a.name} and {b.name} cannot be compared"
    for key in ("split", "protocol", "ties"):
        if a.metrics.get(key) != b.metrics.get(key):
            raise InputError(
                f"{names}: {key} is {a.metrics.get(key)!r} in the first, {b.metrics.get(key)!r} in the second"
            )
    data = [model.metrics.get("data") for model in (a, b)]
    if None not in data and data[0] != data[1]:
        raise InputError(
            f"{names}: measured on other data ({data[0]} in the first, {data[1]} in the second); rank one of the runs "
            "on the data set of the other: transfers in params.yaml"
        )
    if data.count(None) == 1:
        warn(f"{(a, b)[data.index(None)].name} does not say which data it was measured on; evaluate again to be sure")
    queries = _index(a, a.ranks, "query_id"), _index(b, b.ranks, "query_id")
    _check_index(names, *queries, "queries")
    images = [
        pd.Series(model.ranks["image_id"].to_numpy(), index=index).sort_index()
        for model, index in zip((a, b), queries, strict=True)
    ]
    moved = images[0].index[images[0].to_numpy() != images[1].to_numpy()]
    if len(moved):
        ids = ", ".join(str(model[moved[0]]) for model in images)
        raise InputError(
            f"{names}: {len(moved)} queries belong to other images, the first is {_text(moved[0], 'query_id')} of images {ids}"
        )
    items = _index(a, a.occurrence, "item_id"), _index(b, b.occurrence, "item_id")
    _check_index(names, *items, "items")
    _check_texts(names, *map(_texts, (a.ranks, b.ranks), queries, ("query_name",) * 2))
    _check_texts(names, *map(_texts, (a.occurrence, b.occurrence), items, ("item_name",) * 2))


def _texts(table: pa.Table, index: pd.MultiIndex, column: str) -> pd.Series:
    """Names of ids that are text, because their numbers have no meaning of their own; empty for other ids."""
    texts = table[column].to_pandas().fillna("").to_numpy() if column in table.column_names else ""
    return pd.Series(texts, index=index, dtype=object).sort_index()


def _check_texts(names: str, a: pd.Series, b: pd.Series) -> None:
    """Raises InputError where one number stands for two texts."""
    changed = a.index[a.to_numpy() != b.to_numpy()]
    if len(changed):
        raise InputError(
            f"{names}: {_text(changed[0], a.index.names[2])} is {a[changed[0]] or 'a number'!r} in the first and "
            f"{b[changed[0]] or 'a number'!r} in the second; evaluate files whose rows come in the same order"
        )


def _index(model: Compared, table: pa.Table, column: str) -> pd.MultiIndex:
    index = pd.MultiIndex.from_arrays(
        [table["direction"].to_numpy(), table["fold"].to_numpy(), table[column].to_numpy()],
        names=["direction", "fold", column],
    )
    if index.has_duplicates:
        duplicate = index[index.duplicated()][0]
        raise InputError(f"{model.name}: {_text(duplicate, column)} is there more than once; evaluate again")
    return index


def _check_index(names: str, a: pd.MultiIndex, b: pd.MultiIndex, label: str) -> None:
    differing = a.symmetric_difference(b)
    if len(differing):
        first = differing[0]
        side = "first" if first in a else "second"
        raise InputError(
            f"{names}: {len(a)} and {len(b)} {label}, of which {len(differing)} are on one side only; {_text(first, a.names[2])} is only in the {side}"
        )


def _text(key: tuple, column: str) -> str:
    return f"{key[0]} fold {key[1]} {column} {key[2]}"


# Intervals of a method: chance in the seeds of its trainings and in the images of the test set.
#
# All trainings of a method rank the same images, so seeds and images are crossed. With the figure of seed s as mean +
# seed effect + mean over images of (image effect + interaction), the variance of the mean over S seeds is
#
# (variance between the S figures) / S + (covariance, over draws of images, of the figures of two different seeds)
#
# The first term has seeds and interaction, the second only the images. Multi-reader studies of diagnostic images use
# the same formula with readers for seeds (Obuchowski and Rockette, Communications in Statistics 24, 1995; a covariance
# below 0 counts as 0). The t quantile has the seeds' degrees of freedom (Welch's for two methods with different seeds),
# divided by their share in the variance. Satterthwaite's degrees of freedom in the same studies (Hillis, Statistics in
# Medicine 26, 2007) divide by the square of that share: at 3 seeds they cover 92% where the share is 0.9, ours 94% to
# 96% everywhere. Percentiles of draws of seeds and images cover 78% to 83% where seeds matter most (simulation:
# docs/comparisons.md).


@dataclass(frozen=True)
class Repetitions:
    """One figure of one method. values: of each seed; draws: of each seed under the same draws of images."""

    values: Float[np.ndarray, " seeds"]
    draws: Float[np.ndarray, "seeds draws"]

    def __len__(self) -> int:
        return len(self.values)

    def __sub__(self, right: "Repetitions") -> "Repetitions":
        """Seed by seed; both have the same seeds in the same order."""
        return Repetitions(self.values - right.values, self.draws - right.draws)

    @property
    def between(self) -> float:
        """The variance of the mean due to seeds; 0 for a single seed, which is then the only one of interest."""
        return float(np.var(self.values, ddof=1)) / len(self) if len(self) > 1 else 0.0

    @property
    def images(self) -> float:
        """The covariance over the draws, as a mean over all pairs of seeds; for a single seed its variance."""
        of_mean, of_seed = np.var(self.draws.mean(axis=0), ddof=1), np.var(self.draws, axis=1, ddof=1).mean()
        seeds = len(self)
        return float((seeds * of_mean - of_seed) / (seeds - 1)) if seeds > 1 else float(of_seed)


@dataclass(frozen=True)
class Spread:
    """mean: over seeds, or the difference of two means; error: its standard error; freedom: degrees of freedom of the t
    distribution of (mean - truth) / error, infinite where seeds have no part in the error."""

    mean: float
    error: float
    freedom: float

    def interval(self, level: float = 0.95) -> list[float]:
        """[low, high], equal tails."""
        from scipy.special import stdtrit  # 0.1 s that `report` need not spend

        away = float(stdtrit(min(self.freedom, 1e9), (1 + level) / 2)) * self.error
        return [self.mean - away, self.mean + away]

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided, for the truth ``null``: below 1 - level exactly where the interval excludes it."""
        if self.error == 0:
            return float(self.mean == null)
        from scipy.special import stdtr

        return float(2 * stdtr(min(self.freedom, 1e9), -abs(self.mean - null) / self.error))


@dataclass(frozen=True)
class Drawn:
    """The interval and p-value of a difference of two single models under draws of images. Hubness has no p-value: draws
    shift it (``intervals``), so equal models would differ."""

    draws: Float[np.ndarray, " draws"]
    is_tested: bool = True

    def interval(self, level: float = 0.95) -> list[float]:
        return interval(self.draws, level)

    def p_value(self, null: float = 0.0) -> float | None:
        return p_value(self.draws - null) if self.is_tested else None


def figure_spread(method: Repetitions) -> Spread:
    """The spread of a method's figure, or of a difference paired by seed."""
    return _spread(float(method.values.mean()), [method], method.images)


def difference_spread(a: Repetitions, b: Repetitions) -> Spread:
    """The spread of B - A with different seeds and the same images (Welch's variance over seeds)."""
    together = np.cov(a.draws.mean(axis=0), b.draws.mean(axis=0))[0, 1]
    return _spread(float(b.values.mean() - a.values.mean()), [a, b], a.images + b.images - 2 * float(together))


def _spread(mean: float, methods: list[Repetitions], images: float) -> Spread:
    parts = np.array([method.between for method in methods])
    seeds = float(parts.sum())
    variance = seeds + max(images, 0.0)
    doubt = sum(part**2 / (len(method) - 1) for part, method in zip(parts, methods, strict=True) if part)
    return Spread(mean, variance**0.5, float(seeds * variance / doubt) if doubt else np.inf)


def repetitions(evaluations: Sequence[Figures], samples: Sequence[Sample]) -> dict[Address, Repetitions]:
    """The figures that all seeds have. samples: of ``evaluations``, under the same draws."""
    estimates = [figures.estimate() for figures in evaluations]
    return {
        address: Repetitions(np.array([row[address] for row in estimates]), np.stack([row[address] for row in samples]))
        for address in estimates[0]
        if all(address in row for row in estimates) and all(address in row for row in samples)
    }


def spreads(evaluations: Sequence[Figures], resamples: int, seed: int) -> dict[Address, Spread]:
    """The spread of every figure of a method with one evaluation per seed of the same images. Raises as ``sample``."""
    figures = repetitions(evaluations, sample(evaluations, resamples, seed))
    return {address: figure_spread(figure) for address, figure in figures.items()}


METRICS = (
    *("r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"),
    *("skew@1", "skew@5", "skew@10", "robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"),
)
ADDRESSES: list[Address] = [(direction, metric) for direction in evaluation.DIRECTIONS for metric in METRICS]
ADDRESSES += [("rsum",), ("hs_sum",)]
SIGNIFICANT = 0.05
_ROUNDING = 2e-6


@dataclass(frozen=True)
class Difference:
    """One figure of every seed of A and of B. doubt: of mean B - mean A, None where the tables do not define it."""

    address: Address
    a: Float[np.ndarray, " seeds_a"]
    b: Float[np.ndarray, " seeds_b"]
    doubt: Spread | Drawn | None


@dataclass(frozen=True)
class FigureRow:
    """One figure, as a mean over seeds. interval: None where the tables do not define the figure, p: nor for hubness of
    single models; holm: p corrected
    for several B's; spread: standard deviations over the seeds of A and B."""

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
        """The p-value that decides significance."""
        return self.p if self.holm is None else self.holm

    @property
    def significant(self) -> bool:
        return self.decisive is not None and bool(self.decisive < SIGNIFICANT)


@dataclass(frozen=True)
class Comparison:
    """images: number of images over all folds; rows: in the order of METRICS, the two sums last; at_once: number of B's
    that share Holm's correction. column: of groups, whose names then begin the addresses."""

    a: Method
    b: Method
    images: int
    rows: list[FigureRow]
    at_once: int = 1
    column: str | None = None


def compared(a: Method, b: Method, resamples: int, seed: int) -> Comparison:
    """Every figure that both have, with the 95% interval and the two-sided p-value of B - A under the same draws of
    images, and of seeds where a side has several. Raises InputError when they cannot be paired, or when metrics.json
    and the tables disagree."""
    images, figures = differences(a, b, resamples, seed)
    rows = []
    for figure in figures:
        interval, p = (None, None) if figure.doubt is None else (figure.doubt.interval(), figure.doubt.p_value())
        means, spread = (float(figure.a.mean()), float(figure.b.mean())), (_sd(figure.a), _sd(figure.b))
        rows.append(FigureRow(figure.address, *means, interval, p, spread=spread))
    return Comparison(a, b, images, rows)


def _sd(values: np.ndarray) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def paired(a: Method, b: Method) -> bool:
    """Whether both have the same seeds, which are then compared seed by seed."""
    return len(a) > 1 and a.models.keys() == b.models.keys()


def differences(a: Method, b: Method, resamples: int, seed: int) -> tuple[int, list[Difference]]:
    """The number of images, and the figures behind ``compared``'s rows. Raises as ``compared``."""
    models = [*a.models.values(), *(b.models[name] for name in (a.models if paired(a, b) else b.models))]
    for model in models[1:]:
        check(models[0], model)
    figures = [Figures.from_tables(model.ranks, model.occurrence) for model in models]
    estimates = [_checked(model, rows.estimate()) for model, rows in zip(models, figures, strict=True)]
    samples = sample(figures, resamples, seed)
    rows = []
    for address in (address for address in ADDRESSES if all(address in estimate for estimate in estimates)):
        values = np.array([estimate[address] for estimate in estimates])
        draws = np.stack([model[address] for model in samples]) if all(address in model for model in samples) else None
        of_a, of_b = np.split(values, [len(a)])
        doubt: Spread | Drawn | None = None
        if draws is not None and len(models) == 2:
            moved = centred(address, draws[1] - draws[0], values[1] - values[0])
            doubt = Drawn(moved, is_tested=not address[-1].startswith(HUBNESS))
        elif draws is not None:
            left, right = (Repetitions(values[part], draws[part]) for part in (slice(len(a)), slice(len(a), None)))
            doubt = figure_spread(right - left) if paired(a, b) else difference_spread(left, right)
        rows.append(Difference(address, of_a, of_b, doubt))
    return sum(figures[0].images().values()), rows


def _checked(model: Compared, counted: dict[Address, float]) -> dict[Address, float]:
    """Figures from the tables; from metrics.json those that the tables do not define, as hubness of a matching."""
    figures = {}
    for address in ADDRESSES:
        stated = model.metrics.get(address[0])
        stated = stated.get(address[1]) if len(address) == 2 and isinstance(stated, dict) else stated
        value = counted.get(address, stated)
        if not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            raise InputError(f"{model.name}: metrics.json {'.'.join(address)} is {value!r}, expected a finite number")
        if isinstance(stated, int | float) and not math.isclose(stated, value, rel_tol=1e-6, abs_tol=_ROUNDING):
            raise InputError(
                f"{model.name}: metrics.json has {'.'.join(address)} = {stated}, ranks.parquet and "
                f"occurrence.parquet give {value:.6f}; the files do not belong together, evaluate again"
            )
        figures[address] = float(value)
    return figures
