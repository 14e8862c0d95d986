"""All figures of one evaluation, measured again under any weights of its images."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core import devices, processes
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.confidence.sides import FoldDirection

# ("image_to_text", "r@1") or, for the sums over both directions, ("rsum",).
Address = tuple[str, ...]
Sample = dict[Address, Float[np.ndarray, " draws"]]
_SUMS = {"rsum": "r", "hs_sum": "skew"}
_WEIGHTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Figures:
    """sides: by fold, then direction. Both directions of a fold have the same images."""

    sides: dict[int, dict[str, FoldDirection]]

    @classmethod
    def of(cls, ranks: pa.Table, occurrence: pa.Table) -> "Figures":
        """From ranks.parquet and occurrence.parquet. Raises InputError when the two do not belong
        together."""
        sides: dict[int, dict[str, FoldDirection]] = {}
        for fold in sorted(pc.unique(ranks["fold"]).to_pylist()):
            of_fold = ranks.filter(pc.field("fold") == fold)
            images = np.unique(of_fold["image_id"].to_numpy())
            items = occurrence.filter(pc.field("fold") == fold)
            for direction in DIRECTIONS:
                here = pc.field("direction") == direction
                if len(queries := of_fold.filter(here)):
                    listed = items.filter(here)["item_id"].to_numpy()
                    sides.setdefault(fold, {})[direction] = FoldDirection.of(images, queries, listed)
        return cls(sides)

    def images(self) -> dict[int, int]:
        """How many images each fold has."""
        return {fold: len(next(iter(of_fold.values())).images) for fold, of_fold in self.sides.items()}

    def measure(self, weights: dict[int, Int[np.ndarray, "draws images"]]) -> Sample:
        """weights: by fold, how often each image counts in each draw. A metric is the mean over the folds;
        the sums are there when all their parts are."""
        parts: dict[Address, list[np.ndarray]] = {}
        for fold, of_fold in self.sides.items():
            for direction, side in of_fold.items():
                for metric, values in side.measure(weights[fold]).items():
                    parts.setdefault((direction, metric), []).append(values)
        return _with_sums({address: np.mean(values, axis=0) for address, values in parts.items()})

    def estimate(self) -> dict[Address, float]:
        """The figures themselves: every image once. Without those that are undefined, as the skewness of equal counts is."""
        once = {fold: np.ones((1, images), np.int64) for fold, images in self.images().items()}
        found = {address: float(values[0]) for address, values in self.measure(once).items()}
        return {address: value for address, value in found.items() if np.isfinite(value)}


def _with_sums(found: Sample) -> Sample:
    """With the sums over both directions of which all parts are there."""
    for name, part in _SUMS.items():
        summands = [(direction, f"{part}@{k}") for direction in DIRECTIONS for k in KS]
        if all(address in found for address in summands):
            found[(name,)] = np.sum([found[address] for address in summands], axis=0)
    return found


def sample(evaluations: Sequence[Figures], resamples: int, seed: int, at_once: int = _WEIGHTS_AT_ONCE) -> list[Sample]:
    """The metrics of each evaluation under the same ``resamples`` draws of images with replacement.

    Each fold draws as many images as it has, from its own generator. All evaluations must have the same
    images. Draws in which a side has no query are left out; it takes images without captions and very few of them. Those in
    which the skewness of one is undefined are left out of this figure; the figure is left out where that is all of them.
    """
    samples = measured(evaluations, resamples, seed, at_once)
    finite = [{address: np.isfinite(values) for address, values in one.items()} for one in samples]
    defined = np.all([one[address] for one in finite for address in one if not _is_skewness(address)], axis=0)
    if not defined.any():
        raise InputError(
            f"none of {resamples} bootstrap draws has a query in every direction and fold; there are too few images"
        )
    every = {address for one in finite for address in one}
    kept = {address: defined & np.all([one[address] for one in finite if address in one], axis=0) for address in every}
    return [
        {address: values[kept[address]] for address, values in one.items() if kept[address].any()} for one in samples
    ]


def _is_skewness(address: Address) -> bool:
    return address[-1].startswith((f"{_SUMS['hs_sum']}@", "hs_sum"))


def measured(
    evaluations: Sequence[Figures], resamples: int, seed: int, at_once: int = _WEIGHTS_AT_ONCE
) -> list[Sample]:
    """``sample`` with NaN where a draw does not define a figure. at_once: weights held in memory, which does not change
    the result."""
    images = evaluations[0].images()
    streams = {fold: devices.generator(seed, "bootstrap", fold) for fold in images}
    step = max(1, min(at_once // max(1, sum(images.values())), -(-resamples // processes.worker_count())))
    drawn = (
        {fold: _weights(streams[fold], min(step, resamples - start), images[fold]) for fold in images}
        for start in range(0, resamples, step)
    )
    chunks = zip(*processes.each(partial(map, partial(_measured, evaluations)), drawn), strict=True)
    return [{address: np.concatenate([part[address] for part in parts]) for address in parts[0]} for parts in chunks]


def swapped(a: Figures, b: Figures, draws: int, seed: int, at_once: int = _WEIGHTS_AT_ONCE) -> Sample:
    """B - A of the figures of hubness after A and B have changed places in every second image, drawn at random: what the difference
    would be if it were chance which of the two a result is of. Both must have the same images and items; none of a matching.
    Draws in which a skewness is undefined are left out of it."""
    parts: dict[Address, list[np.ndarray]] = {}
    for fold, images in a.images().items():
        stream = devices.generator(seed, "swap", fold)
        step = max(1, at_once // images)
        for start in range(0, draws, step):
            stays = stream.integers(2, size=(min(step, draws - start), images))
            first, second = np.hstack([stays, 1 - stays]), np.hstack([1 - stays, stays])
            for direction, side in a.sides[fold].items():
                both = side.beside(b.sides[fold][direction])
                of_a, of_b = both.hubness(first), both.hubness(second)
                for name, values in of_a.items():
                    parts.setdefault((direction, name), []).append(of_b[name] - values)
    folds = len(a.sides)
    found = {address: np.concatenate(values).reshape(folds, draws).mean(axis=0) for address, values in parts.items()}
    defined = {address: values[np.isfinite(values)] for address, values in _with_sums(found).items()}
    return {address: values for address, values in defined.items() if len(values)}


def _measured(evaluations: Sequence[Figures], weights: dict[int, np.ndarray]) -> list[Sample]:
    return [figures.measure(weights) for figures in evaluations]


def _weights(stream: np.random.Generator, count: int, images: int) -> np.ndarray:
    drawn = [np.bincount(stream.integers(images, size=images), minlength=images) for _ in range(count)]
    return np.stack(drawn)
