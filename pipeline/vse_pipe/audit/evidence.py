"""How probable it is that a pair is mismatched, without a trained model and without a known
mismatch.

Every doubt of the family ``doubts`` compares a caption with any image, so mismatches can be
simulated: captions beside other images. What tells these from the pairs as they are also tells the
mismatched pairs from the matched ones, because the pairs as they are hold no other difference. This
is learning from one labelled class and a mixture (Elkan and Noto, KDD 2008). ``share`` says how
many pairs are mismatched."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vse_pipe.audit.share import Estimate, Odds, estimate, telling
from vse_pipe.project.registry import DOUBTS

FOLDS = 5
# Dimensions of each side; more cost time and find no more.
DIMENSIONS = 384
# Images of an audit at least: two folds, in each of which a caption can be compared with another
# image.
FEWEST_IMAGES = 4
# Pairs of a block: 20 MiB of vectors with 1,280 dimensions, and 160 MiB of scores against 10,000
# references.
_BLOCK = 4096
# Correlation of the probabilities of two captions of an image that are both right or both wrong: 0
# to 0.5 on photographs and drawings.
_ALIKE = 0.15
# Rows from which means and variances of a side are taken, pairs from which the combination and the
# share are learnt.
_SAMPLE, _LEARNT, _ASKED = 2048, 200_000, 50_000

# Captions (n,) and the image beside each (n,): columns (n, c).
Evidence = Callable[[ndarray, ndarray], ndarray]


@dataclass(frozen=True)
class PairPool:
    """The vectors of a data set's pairs, all of length 1, float32. owners: row of the image of each
    caption; folds: of each image; trust: of each pair in 0..1, 1 at first; verdicts: 1 for a pair
    that is known to be matched, -1 for a mismatched one, else 0; joint: images and captions lie in
    one space; seed: of all draws."""

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
        """The pool with random folds. images: ``FEWEST_IMAGES`` or more, each with a pair at least;
        verdicts: by default of no pair."""
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
        return self.images[images]

    def text_vectors(self, captions: ndarray) -> Float[ndarray, "rows e"]:
        return self.texts[captions]

    @cached_property
    def _incidence(self) -> sparse.csr_matrix:
        """1 where an image is shown with a caption."""
        captions = np.arange(len(self.owners))
        return sparse.csr_matrix((np.ones(len(captions), np.float32), (self.owners, captions)))

    def caption_sums(self, images: Int[ndarray, " rows"], weights: ndarray | None = None) -> Float[ndarray, "rows e"]:
        """The sum of each image's captions by trust, or by ``weights`` of all pairs."""
        rows = self._incidence[images]
        values = (self.trust if weights is None else weights)[rows.indices]
        parts = sparse.csr_matrix((values, np.arange(rows.nnz), rows.indptr), (len(images), rows.nnz))
        return parts @ self.text_vectors(rows.indices)

    @staticmethod
    def blocks(rows: ndarray, size: int = _BLOCK) -> Iterator[ndarray]:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def other_images(self, captions: ndarray, rng: np.random.Generator) -> Int[ndarray, " captions"]:
        """For each caption a random image of its fold that it is not shown with."""
        others = np.empty_like(captions)
        for fold in range(self.folds.max() + 1):
            inside = np.flatnonzero(self.caption_folds[captions] == fold)
            peers = np.flatnonzero(self.folds == fold)
            drawn = rng.integers(0, len(peers) - 1, len(inside))
            # The image of the pair is passed over: positions behind it move up by one.
            others[inside] = peers[drawn + (drawn >= np.searchsorted(peers, self.owners[captions[inside]]))]
        return others


@dataclass(frozen=True)
class Doubts:
    """A row a pair. probability: of a mismatch; odds: what pairs are ranked by, log-odds or, under
    a run, the loss; verdicts: as in ``PairPool``; columns: the evidence.

    estimate: of the share of mismatches, None under a run; together: how often the captions of an
    image are wrong together, 0 to 1; weights: of each column in the combination, in units of its
    spread."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    verdicts: Int[ndarray, " pairs"]
    columns: pd.DataFrame
    estimate: Estimate | None = None
    together: float = 0.0
    weights: dict[str, float] = field(default_factory=dict)

    def number(self) -> tuple[float, tuple[float, float] | None]:
        """How many open pairs are mismatched, and the 95 % interval, None without an estimate.

        Pairs were decided because they looked doubtful, by more than their odds now say. So the
        others have fewer mismatches than their odds say, and only the upper limit holds."""
        is_open = self.verdicts == 0
        if self.estimate is None:
            return float(self.probability[is_open].sum()), None
        if is_open.all():
            low, high = self.estimate.interval
            return self.estimate.share * len(self.odds), (low * len(self.odds), high * len(self.odds))
        odds = self.odds[is_open]
        return float(self.estimate.probability(odds).sum()), (0.0, self.estimate.number(odds)[1])

    def interval(self, pairs: Int[ndarray, " some"]) -> tuple[float, float] | None:
        """The 95 % interval of mismatches among open pairs, None without an estimate."""
        if self.estimate is None:
            return None
        return self.estimate.number(self.odds[pairs[self.verdicts[pairs] == 0]])


def unit(vectors: Float[ndarray, "*rows d"]) -> Float[ndarray, "*rows d"]:
    """The rows at length 1; a row of zeros stays."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)


def reduced(vectors: Float[ndarray, "rows d"], dimensions: int = DIMENSIONS) -> Float[ndarray, "rows e"]:
    """Centred rows along their main directions, length 1, float32, block by block."""
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
    """Evidence of two columns: the inner product of a caption and an image, less its mean over all
    images and divided by its standard deviation over all images, and the same over all captions.

    Means and covariances of the vectors give both exactly, without all inner products; they come
    from a sample. ``vectors`` (n, d) takes the place of those of the images."""
    captions = pool.draw(len(pool.owners), min(_SAMPLE, len(pool.owners)))
    images = pool.draw(len(pool.images), min(_SAMPLE, len(pool.images)))
    (text_mean, text_cov), (image_mean, image_cov) = (
        _moments(np.vstack([vectors(rows) for rows in pool.blocks(chosen)]))
        for vectors, chosen in ((of_captions, captions), (of_images, images))
    )

    def columns(captions: ndarray, images: ndarray, vectors: ndarray | None = None) -> ndarray:
        texts = of_captions(captions)
        if vectors is None:
            distinct, places = np.unique(images, return_inverse=True)
            vectors = of_images(distinct)[places]
        products = np.einsum("rd,rd->r", texts, vectors)
        over_images = (products - texts @ image_mean) / _spread(texts, image_cov)
        return np.stack([over_images, (products - vectors @ text_mean) / _spread(vectors, text_cov)], axis=-1)

    return columns


def _moments(vectors: ndarray) -> tuple[ndarray, ndarray]:
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    return mean, centred.T @ centred / len(vectors)


def _spread(vectors: ndarray, covariance: ndarray) -> ndarray:
    return np.sqrt(np.maximum(np.einsum("rd,rd->r", vectors @ covariance, vectors), 1e-12))


def measure(pool: PairPool, members: Mapping[str, Any] | None = None) -> Doubts:
    """How probable a mismatch is for each pair.

    members: doubts by name with their options, by default all that need no run and that the pool
    allows. In a second round pairs count by their trust, 1 less their probability. Doubts about
    siblings join then, because the first round shows how often the captions of an image are wrong
    together.

    The trust that judges a fold is learnt without this fold. Otherwise a wrong pair would win the
    trust of pairs that resemble it, these would vouch for it, and true mismatches would score
    better than simulated ones."""
    if members is None:
        members = {name: DOUBTS.options(name)() for name in DOUBTS.names() if not DOUBTS.traits(name).of_run}
    options = {name: value for name, value in members.items() if pool.joint or not DOUBTS.traits(name).joint}
    first = {name: value for name, value in options.items() if not DOUBTS.traits(name).later} or options
    doubts, judges = _round(pool, first, 0.0)
    together = _together(doubts.probability, pool.owners)
    assert doubts.estimate is not None
    trust = partial(_trust, pool, first, judges, doubts.estimate)
    return _round(pool, options, together, trust)[0]


def _trust(
    pool: PairPool, options: Mapping[str, Any], judges: list[Any], share: Estimate, fold: int
) -> Float[ndarray, " pairs"]:
    """The trust in all pairs for those of ``fold``, from which nothing is learnt."""
    captions = np.flatnonzero(pool.caption_folds != fold)
    without = replace(pool, trust=(pool.caption_folds != fold).astype(np.float32))
    columns = [
        _columns(without, evidence, captions, pool.owners[captions]) for _, evidence in _evidence(without, options)
    ]
    odds, verdicts = _odds(judges, np.hstack(columns), pool.caption_folds[captions]), pool.verdicts[captions]
    trust = np.zeros_like(pool.trust)
    trust[captions] = np.where(verdicts, verdicts > 0, 1 - share.probability(odds))
    return trust


def _evidence(pool: PairPool, options: Mapping[str, Any]) -> Iterator[tuple[str, Evidence]]:
    for name, values in options.items():
        if (evidence := DOUBTS.load(name).fit(pool, values)) is not None:
            yield name, evidence


def _round(
    pool: PairPool, options: Mapping[str, Any], together: float, trust: Callable[[int], ndarray] | None = None
) -> tuple[Doubts, list[Any]]:
    """The doubts, and the judges of the folds. trust: as of ``_compared``."""
    moved = np.sort(pool.draw(len(pool.owners), min(_LEARNT, len(pool.owners))))
    pairs, simulated = _compared(pool, options, moved, together, trust)
    # How far siblings move along is a guess, and a wrong one would show in the tails; so the share
    # does without them.
    used = [name for name in pairs if not DOUBTS.traits(name.rpartition("_")[0]).siblings]
    folds, odds = pool.caption_folds, []
    for names in (used, list(pairs)):
        sides = pairs[names].to_numpy(), simulated[names].to_numpy()
        judges = _judges(*sides, moved, folds)
        both = _odds(judges, sides[0], folds), _odds(judges, sides[1], folds[moved])
        odds.append(Odds(*both, pool.owners, pool.owners[moved], pool.verdicts))
    asked = np.sort(pool.draw(len(folds), min(_ASKED, len(folds))))
    vectors = np.hstack([pool.texts[asked], pool.images[pool.owners[asked]]])
    asked = asked[telling(vectors, odds[0].pairs[asked], folds[asked])]
    share = estimate(odds[0].of_pairs(asked, np.isin(moved, asked)), odds[1])
    probability = np.where(pool.verdicts, pool.verdicts < 0, share.probability(odds[1].pairs))
    coefficients = np.array([model[-1].coef_[0] for model in judges], np.float64)
    weights = dict(zip(pairs, coefficients.mean(axis=0).round(4).tolist(), strict=True))
    return Doubts(probability, odds[1].pairs, pool.verdicts, pairs, share, together, weights), judges


def _compared(
    pool: PairPool, options: Mapping[str, Any], moved: ndarray, together: float, trust: Callable[[int], ndarray] | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The columns of all pairs, and of the ``moved`` captions beside other images.

    trust: in all pairs, for a fold; None: all pairs have the pool's trust, whichever fold is
    judged."""
    rng = np.random.default_rng([pool.seed, 1])
    other_images = pool.other_images(moved, rng)
    # The siblings of these captions move with them.
    stays = rng.random(len(moved)) < together
    beside = {False: other_images, True: np.where(stays, pool.owners[moved], other_images)}
    folds = pool.caption_folds if trust else np.zeros_like(pool.owners)
    sides: tuple[list[pd.DataFrame], list[pd.DataFrame]] = [], []
    for fold in range(folds.max() + 1):
        view = replace(pool, trust=trust(fold)) if trust else pool
        captions, inside = np.flatnonzero(folds == fold), np.flatnonzero(folds[moved] == fold)
        parts: tuple[dict, dict] = {}, {}
        for name, evidence in _evidence(view, options):
            others = beside[DOUBTS.traits(name).siblings][inside]
            parts[0][name] = _columns(view, evidence, captions, pool.owners[captions])
            parts[1][name] = _columns(view, evidence, moved[inside], others)
        for side, columns, rows in zip(sides, parts, (captions, inside), strict=True):
            names = [f"{name}_{number + 1}" for name, part in columns.items() for number in range(part.shape[1])]
            side.append(pd.DataFrame(np.hstack([*columns.values()]), rows, names))
    pairs, simulated = (pd.concat(side).sort_index() for side in sides)
    return pairs, simulated


def _judges(pairs: ndarray, simulated: ndarray, moved: ndarray, folds: ndarray) -> list[Any]:
    """For each fold what tells simulated mismatches from pairs, a logistic regression that is
    learnt from the other folds. moved: the pairs whose captions the simulated ones have; folds: of
    all pairs."""
    models = []
    for fold in range(folds.max() + 1):
        rest = folds[moved] != fold
        learnt, labels = np.vstack([pairs[moved[rest]], simulated[rest]]), np.repeat([0, 1], rest.sum())
        models.append(make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(learnt, labels))
    return models


def _odds(judges: list[Any], columns: ndarray, folds: Int[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """Log-odds of being a simulated mismatch, by the judge of each row's fold."""
    odds = np.empty(len(columns))
    for fold in np.unique(folds):
        odds[folds == fold] = judges[fold].decision_function(columns[folds == fold])
    return odds


def _columns(pool: PairPool, evidence: Evidence, captions: ndarray, images: ndarray) -> ndarray:
    return np.concatenate([evidence(captions[rows], images[rows]) for rows in pool.blocks(np.arange(len(captions)))])


def _together(probability: ndarray, owners: ndarray) -> float:
    """How often all captions of an image are mismatched together, where the others are mismatched
    one by one.

    From the products of the probabilities of two captions of an image: their mean lies between that
    of independent mismatches and that of joint ones. An image that is hard to judge makes
    probabilities alike too (``_ALIKE``)."""
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
