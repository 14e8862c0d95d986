"""Bootstrap intervals over queries: an image is drawn with its captions, which are not independent
(a cluster bootstrap: Davison and Hinkley, Bootstrap Methods and their Application, 1997, section
3.8). The set of queries varies; the items stay as they are.

Means over queries, the median rank and rsum get the percentile interval. Hubness cannot: a draw
repeats some queries and lacks others, which shifts its figures beyond their spread (coverage from
0% to 98% in simulations). Its draws are moved to have their median at the estimate: 93% to 98%
(skewness), 96% to 98% (largest hub), 82% to 100% (the others)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.hubness import FIGURES, skewness

# Further columns of ranks.parquet whose mean is a metric.
_GRADED_COLUMNS = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision"}


@dataclass(frozen=True)
class FoldDirection:
    """One direction of one fold. images: ids of the fold's images, ascending; image_of: position of
    each query's image there; means: each query's contribution to a metric, float64 by name; ranks:
    float64, 1 = best, None for a matching; picks: positions of the chosen items, for query q from
    starts[q] to starts[q + 1]; items: number of items."""

    images: Int[np.ndarray, " images"]
    image_of: Int[np.ndarray, " queries"]
    means: dict[str, Float[np.ndarray, " queries"]]
    ranks: Float[np.ndarray, " queries"] | None
    starts: Int[np.ndarray, " bounds"]
    picks: Int[np.ndarray, " picks"]
    items: int

    @classmethod
    def from_rows(cls, images: np.ndarray, ranks: pa.Table, items: np.ndarray) -> "FoldDirection":
        """ranks: rows of one direction and fold; items: ids in occurrence.parquet."""
        items, chosen = np.sort(items), ranks["top"].combine_chunks()
        picked = chosen.flatten().to_numpy(zero_copy_only=False)
        lengths = chosen.value_lengths().to_numpy(zero_copy_only=False)
        image_of = np.searchsorted(images, ranks["image_id"].to_numpy())
        starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        picks = np.searchsorted(items, picked)
        return cls(images, image_of, _means(ranks), _column(ranks, "rank"), starts, picks, len(items))

    def measure(self, weights: Int[np.ndarray, "draws images"]) -> dict[str, Float[np.ndarray, " draws"]]:
        """Every metric of the tables under each row of weights. NaN for draws without a query."""
        drawn = weights.astype(np.float64)
        sizes = np.bincount(self.image_of, minlength=len(self.images))
        sums = [np.bincount(self.image_of, values, len(self.images)) for values in self.means.values()]
        with np.errstate(invalid="ignore"):
            means = (drawn @ np.stack(sums, axis=1)) / (drawn @ sizes)[:, None]
        metrics = dict(zip(self.means, means.T, strict=True))
        if self.ranks is None:
            # Queries of a matching compete for quotas, so counting a query twice gives N_k that no
            # matching has; and the tables have only its set at K = 10.
            return metrics
        metrics["med_r"] = _medians(weights, self.ranks, self.image_of)
        return metrics | self._hubness(weights)

    def _hubness(self, weights: Int[np.ndarray, "draws images"]) -> dict[str, Float[np.ndarray, " draws"]]:
        """The figures of N_k under each row of weights."""
        lengths = np.diff(self.starts)
        places = np.arange(len(self.picks)) - np.repeat(self.starts[:-1], lengths)
        owners = np.repeat(self.image_of, lengths)
        # Which picks a larger K adds: those of place 0, of 1 to 4, and of 5 to 9.
        added_places = [(places >= first) & (places < last) for first, last in itertools.pairwise((0, *KS))]
        groups = [(self.picks[chosen], owners[chosen]) for chosen in added_places]
        figures = np.empty((len(weights), 2 + len(FIGURES)))
        for draw, images in enumerate(weights.astype(np.float64)):
            added = [np.bincount(items, images[image_of], self.items) for items, image_of in groups]
            at_1, at_5, at_10 = np.cumsum(added, axis=0).astype(np.int64)
            figures[draw] = skewness(at_1), skewness(at_5), *(measure(at_10) for measure in FIGURES.values())
        names = "skew@1", "skew@5", *(f"{name}@10" for name in FIGURES)
        return dict(zip(names, figures.T, strict=True))


def _medians(weights: np.ndarray, ranks: np.ndarray, image_of: np.ndarray) -> np.ndarray:
    """floor of the weighted median rank under each row of weights; NaN where no query is drawn."""
    order = np.argsort(ranks, kind="stable")
    ascending, images, medians = ranks[order], image_of[order], np.full(len(weights), np.nan)
    for draw, row in enumerate(weights):
        cumulated = row[images].cumsum()
        if queries := cumulated[-1]:
            middle = np.searchsorted(cumulated, [(queries - 1) // 2, queries // 2], "right")
            medians[draw] = np.floor(ascending[middle].mean())
    return medians


def _means(ranks: pa.Table) -> dict[str, np.ndarray]:
    """What each query adds to the metrics that the criterion defines."""
    names = [name for name in ranks.column_names if name.startswith(("hit_", "ndcg_"))]
    columns = {name.replace("hit_", "r@").replace("ndcg_", "ndcg@"): name for name in names} | _GRADED_COLUMNS
    shares = {metric: _column(ranks, name) for metric, name in columns.items()}
    means = {metric: 100.0 * values for metric, values in shares.items() if values is not None}
    position = _column(ranks, "rank")
    return means if position is None else means | {"mean_r": position, "mrr": 100.0 / position}


def _column(ranks: pa.Table, name: str) -> np.ndarray | None:
    """As float64; None when nulls mark a metric that the criterion does not define."""
    return None if ranks[name].null_count else ranks[name].to_numpy().astype(np.float64)


# ("image_to_text", "r@1"), or ("rsum",) for a sum over both directions.
Address = tuple[str, ...]
Sample = dict[Address, Float[np.ndarray, " draws"]]
_SUMS = {"rsum": "r", "hs_sum": "skew"}
_WEIGHTS_AT_ONCE = 1 << 22
# Share of the draws inside of an interval.
LEVEL = 0.95


@dataclass(frozen=True)
class Figures:
    """sides: by fold, then direction. Both directions of a fold have the same images."""

    sides: dict[int, dict[str, FoldDirection]]

    @classmethod
    def from_tables(cls, ranks: pa.Table, occurrence: pa.Table) -> "Figures":
        """From ranks.parquet and occurrence.parquet. Raises InputError for unlike ones."""
        sides: dict[int, dict[str, FoldDirection]] = {}
        for fold in sorted(pc.unique(ranks["fold"]).to_pylist()):
            of_fold = ranks.filter(pc.field("fold") == fold)
            images = np.unique(of_fold["image_id"].to_numpy())
            items = occurrence.filter(pc.field("fold") == fold)
            for direction in DIRECTIONS:
                in_direction = pc.field("direction") == direction
                if len(queries := of_fold.filter(in_direction)):
                    listed = items.filter(in_direction)["item_id"].to_numpy()
                    sides.setdefault(fold, {})[direction] = FoldDirection.from_rows(images, queries, listed)
        return cls(sides)

    def images(self) -> dict[int, int]:
        return {fold: len(next(iter(of_fold.values())).images) for fold, of_fold in self.sides.items()}

    def measure(self, weights: dict[int, Int[np.ndarray, "draws images"]]) -> Sample:
        """weights: by fold, how often each image counts in each draw. A metric is the mean over the
        folds; a sum is defined where all its parts are."""
        parts: dict[Address, list[np.ndarray]] = {}
        for fold, of_fold in self.sides.items():
            for direction, side in of_fold.items():
                for metric, values in side.measure(weights[fold]).items():
                    parts.setdefault((direction, metric), []).append(values)
        return _with_sums({address: np.mean(values, axis=0) for address, values in parts.items()})

    def estimate(self) -> dict[Address, float]:
        """The figures with every image once, without undefined ones, as of equal counts."""
        once = {fold: np.ones((1, images), np.int64) for fold, images in self.images().items()}
        estimates = {address: float(values[0]) for address, values in self.measure(once).items()}
        return {address: value for address, value in estimates.items() if np.isfinite(value)}


def _with_sums(figures: Sample) -> Sample:
    """Adds the sums over both directions that have all their parts."""
    for name, part in _SUMS.items():
        summands = [(direction, f"{part}@{k}") for direction in DIRECTIONS for k in KS]
        if all(address in figures for address in summands):
            figures[(name,)] = np.sum([figures[address] for address in summands], axis=0)
    return figures


def sample(evaluations: Sequence[Figures], resamples: int, seed: int) -> list[Sample]:
    """The metrics of each evaluation under the same ``resamples`` draws of images with replacement.

    Each fold draws as many images as it has, from its own generator. All evaluations have the same
    images. A draw in which a direction has no query is left out; this needs very few images, some
    without captions. A draw with an undefined skewness is left out of that figure, and the figure
    is absent where no draw remains."""
    samples = measured(evaluations, resamples, seed)
    finite: dict[Address, list[np.ndarray]] = {}
    for address, values in (row for figures in samples for row in figures.items()):
        finite.setdefault(address, []).append(np.isfinite(values))
    skewed = ("skew@", "hs_sum")
    defined = np.all([row for key, rows in finite.items() if not key[-1].startswith(skewed) for row in rows], axis=0)
    if not defined.any():
        raise InputError(f"too few images: none of {resamples} draws has a query in every direction")
    usable = {address: defined & np.all(rows, axis=0) for address, rows in finite.items()}
    return [{key: values[usable[key]] for key, values in row.items() if usable[key].any()} for row in samples]


def measured(evaluations: Sequence[Figures], resamples: int, seed: int) -> list[Sample]:
    """``sample`` with NaN where a draw does not define a figure."""
    images = evaluations[0].images()
    streams = {fold: generator(seed, "bootstrap", fold) for fold in images}
    step = max(1, _WEIGHTS_AT_ONCE // max(1, sum(images.values())))
    drawn = (
        {fold: _weights(streams[fold], min(step, resamples - start), images[fold]) for fold in images}
        for start in range(0, resamples, step)
    )
    chunks = zip(*([figures.measure(weights) for figures in evaluations] for weights in drawn), strict=True)
    return [{address: np.concatenate([part[address] for part in parts]) for address in parts[0]} for parts in chunks]


def _weights(stream: np.random.Generator, count: int, images: int) -> np.ndarray:
    return np.stack([np.bincount(stream.integers(images, size=images), minlength=images) for _ in range(count)])


HUBNESS = (*(f"{name}@" for name in FIGURES), "hs_sum")
_SHARES = dict.fromkeys(("robin_hood@", "gini@"), (0.0, 1.0))
_PERCENT = dict.fromkeys(("anti_hubs@", "r@", "mrr", "map", "r_precision", "ndcg@"), (0.0, 100.0))
_LIMITS = {**_SHARES, **_PERCENT, "largest_hub@": (0.0, np.inf), "rsum": (0.0, 600.0), "m": (1.0, np.inf)}
Draws = Float[np.ndarray, " draws"]


def intervals(
    ranks: pa.Table, occurrence: pa.Table, resamples: int, seed: int
) -> dict[str, dict[str, list[float]] | list[float]]:
    """``{direction: {metric: [low, high]}, "rsum": [low, high], "hs_sum": [low, high]}`` in the
    units of metrics.json.

    ranks, occurrence: as ``vse_pipe.artifacts.evaluation`` reads them; resamples: number of draws.
    A matching has no interval for metrics that need a rank, nor for hubness: its pairs depend on
    all queries at once. What a criterion learnt from a query bank stays as it was. Raises
    InputError when the tables do not belong together."""
    figures = Figures.from_tables(ranks, occurrence)
    (draws,) = sample([figures], resamples, seed)
    limits: dict = {}
    for address, value in figures.estimate().items():
        if address in draws:
            nest(limits, address, within(address, interval(centred(address, draws[address], value))))
    return limits


def within(address: Address, ends: list[float]) -> list[float]:
    """The interval, cut at the figure's limits."""
    lowest, highest = next((_LIMITS[name] for name in _LIMITS if address[-1].startswith(name)), (-np.inf, np.inf))
    return [max(ends[0], lowest), min(ends[1], highest)]


def centred(address: Address, draws: Draws, estimate: float) -> Draws:
    """Draws whose percentiles are an interval: the median of hubness is at the estimate."""
    return draws - np.median(draws) + estimate if address[-1].startswith(HUBNESS) else draws


def interval(draws: Draws) -> list[float]:
    """[low, high], the equal-tailed percentiles that hold 95% of the draws."""
    return np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number, in their order: the i-th smallest of n times n - i + 1,
    made monotone.

    With probability 1 - a no true hypothesis is then rejected at level a, under any dependence
    (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(scaled).clip(max=1.0)
    return corrected.tolist()


def nest(tree: dict, address: Address, value: object) -> None:
    """Set ``tree[direction][metric]``, or ``tree[name]`` for a sum over both directions."""
    for name in address[:-1]:
        tree = tree.setdefault(name, {})
    tree[address[-1]] = value
