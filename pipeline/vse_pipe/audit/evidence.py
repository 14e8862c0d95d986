"""How probable it is that a pair is mismatched, without a trained model and without a known mismatch.

Every doubt of the family ``doubts`` compares a caption with any image, so mismatches can be made at will: captions
beside other images. What tells these from the pairs as they are also tells the mismatched pairs from the matched ones,
because the pairs as they are hold no other difference. This is learning from one labelled class and a mixture (Elkan
and Noto, KDD 2008); the share of mismatches is the least ratio of both tails (Blanchard et al., JMLR 2010)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import sparse
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from vse_pipe.project.registry import DOUBTS

FOLDS = 5
# Dimensions of each side; more cost time and find no more.
DIMENSIONS = 384
# Images of an audit at least: two folds, in each of which a caption can be compared with another image.
FEWEST_IMAGES = 4
# Pairs of a block: 20 MiB of vectors with 1,280 dimensions, and 160 MiB of scores against 10,000 references.
_BLOCK = 4096
# Rows from which means and variances of a side are taken, and pairs from which the combination is learnt.
_SAMPLE, _LEARNT = 20_000, 200_000
# Tails of simulated mismatches at which the share of mismatches is estimated, and draws for its interval.
_TAILS = np.linspace(0.3, 0.9, 25)
_DRAWS = 400

# Captions (n,) and k images for each (k, n): columns (k, n, c).
Evidence = Callable[[ndarray, ndarray], ndarray]


@dataclass(frozen=True)
class PairPool:
    """The vectors of a data set's pairs, all of length 1. shown: row of the image of each caption; folds: of each image;
    trust: of each pair in 0..1, 1 at first; joint: images and captions lie in one space; seed: of all draws."""

    images: Float[ndarray, "images d"]
    texts: Float[ndarray, "pairs e"]
    shown: Int[ndarray, " pairs"]
    folds: Int[ndarray, " images"]
    trust: Float[ndarray, " pairs"]
    joint: bool = False
    seed: int = 0

    @classmethod
    def of(cls, images: ndarray, texts: ndarray, shown: ndarray, joint: bool = False, seed: int = 0) -> "PairPool":
        """The pool with random folds. images: ``FEWEST_IMAGES`` or more, each with a pair at least."""
        folds = np.random.default_rng(seed).permutation(len(images)) % min(FOLDS, len(images) // 2)
        return cls(images, texts, shown, folds, np.ones(len(shown), np.float32), joint, seed)

    @cached_property
    def caption_folds(self) -> Int[ndarray, " pairs"]:
        return self.folds[self.shown]

    def draw(self, count: int, size: int) -> Int[ndarray, " size"]:
        """``size`` different numbers below ``count``, the same for each call."""
        return np.random.default_rng([self.seed, count]).choice(count, size, replace=False)

    @staticmethod
    def blocks(rows: ndarray, size: int = _BLOCK) -> Iterator[ndarray]:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def others(self, captions: ndarray, rng: np.random.Generator) -> Int[ndarray, " captions"]:
        """For each caption a random image of its fold that it is not shown with."""
        order = np.argsort(self.folds, kind="stable")
        starts = np.searchsorted(self.folds[order], np.arange(self.folds.max() + 2))
        fold = self.caption_folds[captions]
        sizes = (starts[1:] - starts[:-1])[fold]
        # The own image is passed over: positions behind it move up by one.
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        own = place[self.shown[captions]] - starts[fold]
        drawn = rng.integers(0, np.maximum(sizes - 1, 1))
        return order[starts[fold] + (drawn + (drawn >= own)) % sizes]


@dataclass(frozen=True)
class Doubts:
    """probability: of a mismatch; odds: the combined log-odds by which pairs are ranked; share: of mismatches, with its
    95 % interval; together: how often the captions of an image are wrong together, 0 to 1; weights: of each column in
    the combination, in units of its spread; columns: the evidence, one row a pair."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    share: float
    interval: tuple[float, float]
    together: float
    weights: dict[str, float]
    columns: pd.DataFrame


def unit(vectors: Float[ndarray, "*rows d"]) -> Float[ndarray, "*rows d"]:
    """The rows at length 1; a row of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def reduced(vectors: Float[ndarray, "rows d"], dimensions: int = DIMENSIONS) -> Float[ndarray, "rows e"]:
    """The centred rows along their main directions, at length 1."""
    vectors = vectors - vectors.mean(axis=0)
    if vectors.shape[1] > dimensions:
        _, directions = np.linalg.eigh(vectors.T @ vectors)
        vectors = vectors @ directions[:, : -dimensions - 1 : -1]
    return unit(vectors.astype(np.float32))


def captions_of_images(pool: PairPool) -> Float[ndarray, "images e"]:
    """The sum of the captions that each image is shown with, by trust."""
    pairs = (pool.trust, (pool.shown, np.arange(len(pool.shown))))
    return sparse.csr_matrix(pairs, (len(pool.images), len(pool.shown)), np.float32) @ pool.texts


def standardised(
    pool: PairPool, of_captions: Callable[[ndarray], ndarray], of_images: Callable[[ndarray], ndarray]
) -> Callable[..., ndarray]:
    """Evidence of two columns: the inner product of a caption and an image, less its mean over all images and divided by
    its standard deviation over all images, and the same over all captions.

    Means and covariances of the vectors give both exactly, without all inner products; they come from a sample.
    ``vectors`` (k, n, d) takes the place of those of the images."""
    captions = pool.draw(len(pool.shown), min(_SAMPLE, len(pool.shown)))
    images = pool.draw(len(pool.images), min(_SAMPLE, len(pool.images)))
    (text_mean, text_cov), (image_mean, image_cov) = (
        _moments(np.vstack([vectors(rows) for rows in pool.blocks(chosen)]))
        for vectors, chosen in ((of_captions, captions), (of_images, images))
    )

    def columns(captions: ndarray, images: ndarray, vectors: ndarray | None = None) -> ndarray:
        a = of_captions(captions)
        if vectors is None:
            distinct, places = np.unique(images, return_inverse=True)
            vectors = of_images(distinct)
            centre, spread = vectors @ text_mean, _spread(vectors, text_cov)
            vectors, centre, spread = (values[places.reshape(images.shape)] for values in (vectors, centre, spread))
        else:
            centre, spread = vectors @ text_mean, _spread(vectors, text_cov)
        products = np.einsum("rd,krd->kr", a, vectors)
        by_images = (products - a @ image_mean) / _spread(a, image_cov)
        return np.stack([by_images, (products - centre) / spread], axis=-1)

    return columns


def _moments(vectors: ndarray) -> tuple[ndarray, ndarray]:
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    return mean, centred.T @ centred / len(vectors)


def _spread(vectors: ndarray, covariance: ndarray) -> ndarray:
    return np.sqrt(np.maximum(np.einsum("...d,...d->...", vectors @ covariance, vectors), 1e-12))


def measure(pool: PairPool, members: Mapping[str, Any] | None = None, rounds: int = 2) -> Doubts:
    """How probable a mismatch is for each pair.

    members: doubts by name with their options, by default all that the pool allows; rounds: in each round after the
    first, pairs count by their trust, 1 less their probability. Doubts about siblings join after the first round, which
    shows how often the captions of an image are wrong together."""
    options = {name: DOUBTS.options(name)() for name in DOUBTS.names()} if members is None else dict(members)
    traits = {name: DOUBTS.traits(name) for name in options}
    options = {name: value for name, value in options.items() if pool.joint or not traits[name].joint}
    first = {name: value for name, value in options.items() if not traits[name].later}
    doubts = _round(pool, first or options, 0.0)
    for _ in range(rounds - 1):
        together = _together(doubts.probability, pool.shown)
        trusted = replace(pool, trust=(1 - doubts.probability).astype(np.float32))
        doubts = _round(trusted, options, together)
    return doubts


def _round(pool: PairPool, options: Mapping[str, Any], together: float) -> Doubts:
    rng = np.random.default_rng([pool.seed, 1])
    moved = np.sort(pool.draw(len(pool.shown), min(_LEARNT, len(pool.shown))))
    others = pool.others(moved, rng)
    # The siblings of these captions move with them.
    stays = rng.random(len(moved)) < together
    observed, simulated, names = [], [], []
    for name, values in options.items():
        if (evidence := DOUBTS.load(name).fit(pool, values)) is None:
            continue
        images = np.where(stays, pool.shown[moved], others) if DOUBTS.traits(name).siblings else others
        columns = _columns(pool, evidence, moved, np.stack([pool.shown[moved], images]))
        simulated.append(columns[1])
        if len(moved) < len(pool.shown):
            columns = _columns(pool, evidence, np.arange(len(pool.shown)), pool.shown[None])
        observed.append(columns[0])
        names += [f"{name}_{number}" for number in range(1, columns.shape[-1] + 1)]
    pairs, made = np.hstack(observed), np.hstack(simulated)
    table = pd.DataFrame(pairs, columns=names)
    odds, made_odds, weights = _combined(pairs, made, moved)
    # How far siblings move along is a guess, and a wrong one would show in the tails; so the share does without them.
    alone = np.array([not DOUBTS.traits(name.rpartition("_")[0]).siblings for name in names])
    tails = (odds, made_odds) if alone.all() else _combined(pairs[:, alone], made[:, alone], moved)[:2]
    share, interval = _share(*tails, pool.shown)
    probability = _probability(odds, made_odds, moved, share)
    return Doubts(probability, odds, share, interval, together, dict(zip(names, weights, strict=True)), table)


def _combined(pairs: ndarray, made: ndarray, moved: ndarray) -> tuple[ndarray, ndarray, list[float]]:
    """Log-odds of being a simulated mismatch, of all pairs and of the simulated ones, and the weights of the columns.

    moved: the pairs from which the simulated ones were made; from these and those the weights are learnt."""
    learnt, labels = np.vstack([pairs[moved], made]), np.repeat([0, 1], len(moved))
    scaler = StandardScaler().fit(learnt)
    model = LogisticRegression(max_iter=500).fit(scaler.transform(learnt), labels)
    odds, made_odds = (model.decision_function(scaler.transform(columns)) for columns in (pairs, made))
    return odds, made_odds, model.coef_[0].round(4).tolist()


def _probability(odds: ndarray, made: ndarray, moved: ndarray, share: float) -> Float[ndarray, " pairs"]:
    """The density of simulated mismatches over that of all pairs, rising with the odds, and scaled so that the mean is
    ``share``."""
    rising = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    rising.fit(np.concatenate([odds[moved], made]), np.repeat([0, 1], len(made)))
    chance = rising.predict(odds)
    ratio = chance / np.maximum(1 - chance, 1e-9)
    low, high = 0.0, 1.0
    for _ in range(50):
        scale = (low + high) / 2
        low, high = (scale, high) if np.minimum(scale * ratio, 1).mean() < share else (low, scale)
    return np.minimum(high * ratio, 1)


def _columns(pool: PairPool, evidence: Evidence, captions: ndarray, images: ndarray) -> ndarray:
    places = np.arange(len(captions))
    return np.concatenate([evidence(captions[rows], images[:, rows]) for rows in pool.blocks(places)], axis=1)


def _share(odds: ndarray, made: ndarray, shown: ndarray) -> tuple[float, tuple[float, float]]:
    """The share of mismatches among all pairs: the least ratio of their tail to that of simulated mismatches. Its
    interval is the 2.5 and 97.5 % quantile over draws of images with replacement."""
    thresholds = np.quantile(made, _TAILS)
    tails = (made[:, None] > thresholds).mean(axis=0)
    images = int(shown.max()) + 1
    above = np.stack([np.bincount(shown, odds > threshold, images) for threshold in thresholds], axis=1)
    pairs = np.bincount(shown, minlength=images)
    if not tails.any():  # nothing tells simulated mismatches apart
        return 0.0, (0.0, 1.0)
    ratios = above.sum(axis=0) / len(odds) / np.where(tails > 0, tails, np.nan)
    best = int(np.nanargmin(ratios))
    drawn = np.random.default_rng(0).multinomial(images, np.full(images, 1 / images), _DRAWS)
    draws = drawn @ above[:, best] / (drawn @ pairs) / tails[best]
    low, high = np.quantile(draws, [0.025, 0.975]).clip(0, 1)
    return float(min(ratios[best], 1)), (float(low), float(high))


def _together(probability: ndarray, shown: ndarray) -> float:
    """How often all captions of an image are mismatched together, where the others are mismatched one by one.

    From the products of the probabilities of two captions of an image: their mean lies between that of independent
    mismatches and that of joint ones."""
    images = int(shown.max()) + 1
    sums, squares = (np.bincount(shown, values, images) for values in (probability, probability**2))
    counts = np.bincount(shown, minlength=images)
    several = counts > 1
    if not several.any():
        return 0.0
    pairs = (counts * (counts - 1))[several].sum()
    both = ((sums**2 - squares)[several]).sum() / pairs
    share = probability.mean()
    if not 0 < share < 1:
        return 0.0
    of_wrong = (probability**2).mean() / share
    of_right = share * (1 - of_wrong) / (1 - share)
    joint = share * of_wrong**2 + (1 - share) * of_right**2
    return float(np.clip((both - share**2) / max(joint - share**2, 1e-12), 0, 1))
