"""How probable it is that a pair is mismatched, without a trained model and without a known mismatch.

Every doubt of the family ``doubts`` compares a caption with any image, so mismatches can be simulated: captions
beside other images. What tells these from the pairs as they are also tells the mismatched pairs from the matched ones,
because the pairs as they are hold no other difference. This is learning from one labelled class and a mixture (Elkan
and Noto, KDD 2008). ``share`` says how many pairs are mismatched."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vse_pipe.audit.share import Estimate, Odds, estimate
from vse_pipe.project.registry import DOUBTS

FOLDS = 5
# Dimensions of each side; more cost time and find no more.
DIMENSIONS = 384
# Images of an audit at least: two folds, in each of which a caption can be compared with another image.
FEWEST_IMAGES = 4
# Pairs of a block: 20 MiB of vectors with 1,280 dimensions, and 160 MiB of scores against 10,000 references.
_BLOCK = 4096
# Correlation of the probabilities of two captions of an image that are both right or both wrong: 0 to 0.5 on photographs
# and drawings.
_ALIKE = 0.15
# Rows from which means and variances of a side are taken, and pairs from which the combination is learnt.
_SAMPLE, _LEARNT = 2048, 200_000

# Captions (n,) and k images for each (k, n): columns (k, n, c).
Evidence = Callable[[ndarray, ndarray], ndarray]


@dataclass(frozen=True)
class PairPool:
    """The vectors of a data set's pairs, all of length 1, float32 or float16. owners: row of the image of each caption;
    folds: of each image; trust: of each pair in 0..1, 1 at first; verdicts: 1 for a pair that is known to be matched, -1 for a
    mismatched one, else 0; joint: images and captions lie in one space; seed: of all draws."""

    images: Float[ndarray, "images d"]
    texts: Float[ndarray, "pairs e"]
    owners: Int[ndarray, " pairs"]
    folds: Int[ndarray, " images"]
    trust: Float[ndarray, " pairs"]
    verdicts: Int[ndarray, " pairs"]
    joint: bool = False
    seed: int = 0

    @classmethod
    def of(
        cls,
        images: ndarray,
        texts: ndarray,
        owners: ndarray,
        joint: bool = False,
        seed: int = 0,
        verdicts: ndarray | None = None,
    ) -> "PairPool":
        """The pool with random folds. images: ``FEWEST_IMAGES`` or more, each with a pair at least; verdicts: by
        default of no pair."""
        folds = np.random.default_rng(seed).permutation(len(images)) % min(FOLDS, len(images) // 2)
        verdicts = np.zeros(len(owners), np.int8) if verdicts is None else verdicts
        return cls(images, texts, owners, folds, np.ones(len(owners), np.float32), verdicts, joint, seed)

    @cached_property
    def caption_folds(self) -> Int[ndarray, " pairs"]:
        return self.folds[self.owners]

    def draw(self, count: int, size: int) -> Int[ndarray, " size"]:
        """``size`` different numbers below ``count``, the same for each call."""
        return np.random.default_rng([self.seed, count]).choice(count, size, replace=False)

    def image_vectors(self, images: ndarray) -> Float[ndarray, "rows d"]:
        return self.images[images].astype(np.float32, copy=False)

    def text_vectors(self, captions: ndarray) -> Float[ndarray, "rows e"]:
        return self.texts[captions].astype(np.float32, copy=False)

    @cached_property
    def _by_image(self) -> tuple[ndarray, ndarray]:
        """The captions in the order of their images, and where those of each image start."""
        counts = np.bincount(self.owners, minlength=len(self.images))
        return np.argsort(self.owners, kind="stable"), np.concatenate([[0], counts.cumsum()])

    def caption_sums(self, images: Int[ndarray, " rows"], weights: ndarray | None = None) -> Float[ndarray, "rows e"]:
        """The sum of the captions that each image is shown with, by trust or by other ``weights`` of all pairs."""
        order, starts = self._by_image
        counts = starts[images + 1] - starts[images]
        ends = counts.cumsum()
        captions = order[np.repeat(starts[images] - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)]
        values = (self.trust if weights is None else weights)[captions]
        pairs = (values, (np.repeat(np.arange(len(images)), counts), np.arange(len(captions))))
        return sparse.csr_matrix(pairs, (len(images), len(captions)), np.float32) @ self.text_vectors(captions)

    @staticmethod
    def blocks(rows: ndarray, size: int = _BLOCK) -> Iterator[ndarray]:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def other_images(self, captions: ndarray, rng: np.random.Generator) -> Int[ndarray, " captions"]:
        """For each caption a random image of its fold that it is not shown with."""
        order = np.argsort(self.folds, kind="stable")
        starts = np.searchsorted(self.folds[order], np.arange(self.folds.max() + 2))
        fold = self.caption_folds[captions]
        sizes = (starts[1:] - starts[:-1])[fold]
        # The image of the pair is passed over: positions behind it move up by one.
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        passed = place[self.owners[captions]] - starts[fold]
        drawn = rng.integers(0, np.maximum(sizes - 1, 1))
        return order[starts[fold] + (drawn + (drawn >= passed)) % sizes]


@dataclass(frozen=True)
class Doubts:
    """A row a pair. probability: of a mismatch; odds: what pairs are ranked by, log-odds or, under a run, the loss;
    verdicts: as in ``PairPool``; columns: the evidence."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    verdicts: Int[ndarray, " pairs"]
    columns: pd.DataFrame

    def number(self) -> tuple[float, tuple[float, float] | None]:
        """How many open pairs are mismatched, and the 95 % interval, None where nothing tells it."""
        return float(self.probability[self.verdicts == 0].sum()), None

    def interval(self, pairs: Int[ndarray, " some"]) -> tuple[float, float] | None:
        """The 95 % interval of the number of mismatches among the open ones of some pairs."""
        return None


@dataclass(frozen=True)
class Estimated(Doubts):
    """estimate: of the share of mismatches; together: how often the captions of an image are wrong together, 0 to 1;
    weights: of each column in the combination, in units of its spread."""

    estimate: Estimate
    together: float
    weights: dict[str, float]

    def number(self) -> tuple[float, tuple[float, float]]:
        """As of ``Doubts``. Pairs were decided because they looked doubtful, by more than their odds now say. So the
        others have fewer mismatches than their odds say, and only the upper limit holds."""
        is_open = self.verdicts == 0
        if is_open.all():
            low, high = self.estimate.interval
            return self.estimate.share * len(self.odds), (low * len(self.odds), high * len(self.odds))
        odds = self.odds[is_open]
        return float(self.estimate.probability(odds).sum()), (0.0, self.estimate.number(odds)[1])

    def interval(self, pairs: Int[ndarray, " some"]) -> tuple[float, float]:
        return self.estimate.number(self.odds[pairs[self.verdicts[pairs] == 0]])


def unit(vectors: Float[ndarray, "*rows d"]) -> Float[ndarray, "*rows d"]:
    """The rows at length 1; a row of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def reduced(vectors: Float[ndarray, "rows d"], dimensions: int = DIMENSIONS) -> Float[ndarray, "rows e"]:
    """The centred rows along their main directions, at length 1, float32. Beside both arrays one block is in memory."""
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(vectors), _BLOCK)]
    directions = None
    if vectors.shape[1] > dimensions:
        square = np.zeros((vectors.shape[1],) * 2, np.float32)
        for block in blocks:
            square += (vectors[block] - mean).T @ (vectors[block] - mean)
        directions = np.linalg.eigh(square)[1][:, : -dimensions - 1 : -1]
    rows = np.empty((len(vectors), min(vectors.shape[1], dimensions)), np.float32)
    for block in blocks:
        centred = vectors[block] - mean
        rows[block] = unit(centred if directions is None else centred @ directions)
    return rows


def standardised(
    pool: PairPool, of_captions: Callable[[ndarray], ndarray], of_images: Callable[[ndarray], ndarray]
) -> Callable[..., ndarray]:
    """Evidence of two columns: the inner product of a caption and an image, less its mean over all images and divided by
    its standard deviation over all images, and the same over all captions.

    Means and covariances of the vectors give both exactly, without all inner products; they come from a sample.
    ``vectors`` (k, n, d) takes the place of those of the images."""
    captions = pool.draw(len(pool.owners), min(_SAMPLE, len(pool.owners)))
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


def measure(pool: PairPool, members: Mapping[str, Any] | None = None) -> Estimated:
    """How probable a mismatch is for each pair.

    members: doubts by name with their options, by default all that need no run and that the pool allows. In a second round pairs count by
    their trust, 1 less their probability. Doubts about siblings join then, because the first round shows how often the
    captions of an image are wrong together.

    The trust that judges a fold is learnt without this fold. Otherwise a wrong pair would win the trust of pairs that
    resemble it, these would vouch for it, and true mismatches would score better than simulated ones."""
    traits = {name: DOUBTS.traits(name) for name in DOUBTS.names()}
    without_run = [name for name, trait in traits.items() if not trait.of_run]
    options = {name: DOUBTS.options(name)() for name in without_run} if members is None else dict(members)
    options = {name: value for name, value in options.items() if pool.joint or not traits[name].joint}
    first = {name: value for name, value in options.items() if not traits[name].later} or options
    doubts, judge = _round(pool, first, 0.0)
    together = _together(doubts.probability, pool.owners)
    return _round(pool, options, together, lambda fold: _trust(pool, first, judge, doubts.estimate, fold))[0]


def _trust(
    pool: PairPool, options: Mapping[str, Any], judge: "_Judge", found: Estimate, fold: int
) -> Float[ndarray, " pairs"]:
    """The trust in all pairs, for evidence about those of ``fold``, from which nothing of it is learnt."""
    outside = pool.caption_folds != fold
    without = replace(pool, trust=outside.astype(np.float32))
    captions = np.flatnonzero(outside)
    columns = [
        _columns(without, evidence, captions, pool.owners[captions][None])[0]
        for _, evidence in _evidence(without, options)
    ]
    trust = np.zeros(len(outside), np.float32)
    odds = judge.odds(np.hstack(columns), pool.caption_folds[captions])
    trust[captions] = np.where(pool.verdicts[captions], pool.verdicts[captions] > 0, 1 - found.probability(odds))
    return trust


def _evidence(pool: PairPool, options: Mapping[str, Any]) -> Iterator[tuple[str, Evidence]]:
    for name, values in options.items():
        if (evidence := DOUBTS.load(name).fit(pool, values)) is not None:
            yield name, evidence


def _round(
    pool: PairPool,
    options: Mapping[str, Any],
    together: float,
    trust: Callable[[int], ndarray] | None = None,
) -> tuple[Estimated, "_Judge"]:
    """trust: as of ``_compared``."""
    moved = np.sort(pool.draw(len(pool.owners), min(_LEARNT, len(pool.owners))))
    names, pairs, simulated = _compared(pool, options, moved, together, trust)
    judge = _Judge.of(pairs, simulated, moved, pool.caption_folds)
    # How far siblings move along is a guess, and a wrong one would show in the tails; so the share does without them.
    is_used = np.array([not DOUBTS.traits(name.rpartition("_")[0]).siblings for name in names])
    tails = judge
    if not is_used.all():
        tails = _Judge.of(pairs[:, is_used], simulated[:, is_used], moved, pool.caption_folds)
    of_share, of_pairs = (
        Odds(one.pair_odds, one.simulated_odds, pool.owners, pool.owners[moved], pool.verdicts)
        for one in (tails, judge)
    )
    found = estimate(of_share, of_pairs)
    table = pd.DataFrame(pairs, columns=names)
    weights = dict(zip(names, judge.weights, strict=True))
    probability = np.where(pool.verdicts, pool.verdicts < 0, found.probability(judge.pair_odds))
    return Estimated(probability, judge.pair_odds, pool.verdicts, table, found, together, weights), judge


def _compared(
    pool: PairPool,
    options: Mapping[str, Any],
    moved: ndarray,
    together: float,
    trust: Callable[[int], ndarray] | None,
) -> tuple[list[str], Float[ndarray, "pairs c"], Float[ndarray, "moved c"]]:
    """The names of the columns, and the columns of all pairs and of the ``moved`` captions beside other images.

    trust: in all pairs, for a fold; None: all pairs have the pool's trust, whichever fold is judged."""
    rng = np.random.default_rng([pool.seed, 1])
    other_images = pool.other_images(moved, rng)
    # The siblings of these captions move with them.
    stays = rng.random(len(moved)) < together
    images = {False: other_images, True: np.where(stays, pool.owners[moved], other_images)}
    folds = pool.caption_folds if trust else np.zeros_like(pool.owners)
    sides: list[ndarray] = []
    names: list[str] = []
    for fold in range(folds.max() + 1):
        view = replace(pool, trust=trust(fold)) if trust else pool
        captions, inside = np.flatnonzero(folds == fold), np.flatnonzero(folds[moved] == fold)
        parts = {
            name: _both(view, evidence, captions, moved[inside], images[DOUBTS.traits(name).siblings][inside])
            for name, evidence in _evidence(view, options)
        }
        names = [f"{name}_{number + 1}" for name, part in parts.items() for number in range(part[0].shape[1])]
        sides = sides or [np.empty((count, len(names)), np.float32) for count in (len(pool.owners), len(moved))]
        for side, (columns, rows) in enumerate(zip(sides, (captions, inside), strict=True)):
            columns[rows] = np.hstack([part[side] for part in parts.values()])
    return names, sides[0], sides[1]


def _both(
    pool: PairPool, evidence: Evidence, captions: ndarray, moved: ndarray, other_images: ndarray
) -> tuple[ndarray, ndarray]:
    """The columns of ``captions`` with their images, and of ``moved`` captions with other images."""
    if len(captions) == len(moved):
        columns = _columns(pool, evidence, moved, np.stack([pool.owners[moved], other_images]))
        return columns[0], columns[1]
    pairs = _columns(pool, evidence, captions, pool.owners[captions][None])[0]
    return pairs, _columns(pool, evidence, moved, other_images[None])[0]


@dataclass(frozen=True)
class _Judge:
    """Log-odds of being a simulated mismatch, by a logistic regression for each fold, learnt from the other folds."""

    models: list[Any]
    pair_odds: Float[ndarray, " pairs"]
    simulated_odds: Float[ndarray, " moved"]

    @classmethod
    def of(cls, pairs: ndarray, simulated: ndarray, moved: ndarray, folds: ndarray) -> "_Judge":
        """moved: the pairs whose captions the simulated ones have; folds: of all pairs."""
        models = []
        for fold in range(folds.max() + 1):
            rest = folds[moved] != fold
            learnt, labels = np.vstack([pairs[moved[rest]], simulated[rest]]), np.repeat([0, 1], rest.sum())
            models.append(make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(learnt, labels))
        empty = cls(models, np.zeros(0), np.zeros(0))
        return replace(empty, pair_odds=empty.odds(pairs, folds), simulated_odds=empty.odds(simulated, folds[moved]))

    def odds(self, columns: Float[ndarray, "rows c"], folds: Int[ndarray, " rows"]) -> Float[ndarray, " rows"]:
        odds = np.empty(len(columns))
        for fold, model in enumerate(self.models):
            inside = folds == fold
            if inside.any():
                odds[inside] = model.decision_function(columns[inside])
        return odds

    @property
    def weights(self) -> list[float]:
        """The mean weight of each column."""
        return np.mean([model[-1].coef_[0] for model in self.models], axis=0).round(4).tolist()


def _columns(pool: PairPool, evidence: Evidence, captions: ndarray, images: ndarray) -> ndarray:
    places = np.arange(len(captions))
    return np.concatenate([evidence(captions[rows], images[:, rows]) for rows in pool.blocks(places)], axis=1)


def _together(probability: ndarray, owners: ndarray) -> float:
    """How often all captions of an image are mismatched together, where the others are mismatched one by one.

    From the products of the probabilities of two captions of an image: their mean lies between that of independent
    mismatches and that of joint ones. An image that is hard to judge makes probabilities alike too (``_ALIKE``)."""
    images = int(owners.max()) + 1
    sums, squares = (np.bincount(owners, values, images) for values in (probability, probability**2))
    counts = np.bincount(owners, minlength=images)
    has_several = counts > 1
    if not has_several.any():
        return 0.0
    pairs = (counts * (counts - 1))[has_several].sum()
    both = ((sums**2 - squares)[has_several]).sum() / pairs
    share = probability.mean()
    if not 0 < share < 1:
        return 0.0
    of_wrong = (probability**2).mean() / share
    of_right = share * (1 - of_wrong) / (1 - share)
    between = share * of_wrong**2 + (1 - share) * of_right**2 - share**2
    within = (probability**2).mean() - share**2 - between
    return float(np.clip((both - share**2 - _ALIKE * within) / max(between, 1e-12), 0, 1))
