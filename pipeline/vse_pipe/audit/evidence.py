"""How probable it is that a pair is mismatched, without a trained model and without a known
mismatch.

Each evidence compares a caption with any image, so mismatches can be simulated: captions beside
other images. What tells these from the pairs as they are also tells the mismatched pairs from the
matched ones, because the pairs as they are hold no other difference. This is learning from one
labelled class and a mixture (Elkan and Noto, KDD 2008). ``share`` says how many pairs are
mismatched."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import linalg
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vse_pipe.audit.pool import Evidence, PairPool, blocks, standardised, unit
from vse_pipe.audit.share import Estimate, estimate

# Correlation of the probabilities of two captions of an image that are both right or both wrong: 0
# to 0.5 on photographs and drawings.
_ALIKE = 0.15
# Mismatches that are simulated at most.
_SIMULATED = 200_000
SIBLINGS = "siblings"
# Ridge of the maps from captions to images and back, in units of the mean variance of a dimension.
TEXT_RIDGE, IMAGE_RIDGE = 2.0, 3.0


@dataclass(frozen=True)
class Doubts:
    """A row a pair. probability: of a mismatch; odds: what pairs are ranked by, log-odds or, under
    a run, the loss; columns: the evidence; estimate: of the share of mismatches, None under a
    run."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    columns: pd.DataFrame
    estimate: Estimate | None = None

    def total(self) -> tuple[float, list[int] | None]:
        """How many of all pairs are mismatched, as ``number``. The share is that of the first
        round, which trusts no pair, so it is surer than the sum of the probabilities."""
        if self.estimate is None:
            return float(self.probability.sum()), None
        count = len(self.odds)
        return self.estimate.share * count, [round(limit * count) for limit in self.estimate.interval]

    def number(self, pairs: Int[ndarray, " some"]) -> tuple[float, list[int] | None]:
        """How many of some pairs are mismatched, and the 95 % interval, None without an
        estimate."""
        expected = float(self.probability[pairs].sum())
        return expected, None if self.estimate is None else self.estimate.number(self.odds[pairs])


def measure(pool: PairPool) -> Doubts:
    """How probable a mismatch is for each pair.

    In a second round pairs count by their trust, 1 less their probability. Siblings join then,
    because the first round shows how often the captions of an image are wrong together. The share
    of mismatches is that of the first round: where wrong pairs won trust, pairs that resemble them
    look better than simulated mismatches do."""
    names = ["linear", *(["similarity"] if pool.joint else [])]
    first = _judged(pool, names, 0.0)
    trusting = replace(pool, trust=(1 - first.probability).astype(np.float32))
    together = _together(first.probability, pool.owners)
    assert first.estimate is not None
    return _judged(trusting, [*names, SIBLINGS], together, first.estimate.scoring)


def _judged(pool: PairPool, names: Sequence[str], together: float, scoring: ndarray | None = None) -> Doubts:
    """A logistic regression, which is learnt from the other folds, tells simulated mismatches from
    pairs. together: how often the siblings of a mismatched caption move with it; scoring: as of
    ``estimate``."""
    rng, folds = np.random.default_rng([pool.seed, 1]), pool.caption_folds
    captions, moved = np.arange(len(folds)), pool.draw(len(folds), _SIMULATED)
    images = pool.other_images(moved, rng)
    of_siblings = np.where(rng.random(len(moved)) < together, pool.owners[moved], images)
    pairs, simulated = dict[str, ndarray](), dict[str, ndarray]()
    for name in names:
        if (evidence := _MEMBERS[name](pool)) is not None:
            pairs |= _columns(name, evidence, captions, pool.owners)
            simulated |= _columns(name, evidence, moved, of_siblings if name == SIBLINGS else images)
    table = pd.DataFrame(pairs)
    odds = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        np.vstack([table, pd.DataFrame(simulated)]),
        np.repeat([0, 1], [len(captions), len(moved)]),
        cv=PredefinedSplit(np.concatenate([folds, folds[moved]])),
        method="decision_function",
    )
    odds, of_simulated = np.split(odds, [len(captions)])
    share = estimate(odds, of_simulated, len(pool.images), scoring)
    return Doubts(share.probability(odds), odds, table, share)


def _columns(name: str, evidence: Evidence, captions: ndarray, images: ndarray) -> dict[str, ndarray]:
    places = np.arange(len(captions))
    columns = np.concatenate([evidence(captions[rows], images[rows]) for rows in blocks(places)])
    return {f"{name}_{number}": column for number, column in enumerate(columns.T, start=1)}


def _together(probability: ndarray, owners: ndarray) -> float:
    """How often all captions of an image are mismatched together, where the others are mismatched
    one by one.

    From the products of the probabilities of two captions of an image: their mean lies between that
    of independent mismatches and that of joint ones. An image that is hard to judge makes
    probabilities alike too (``_ALIKE``)."""
    sums, squares = (np.bincount(owners, values) for values in (probability, probability**2))
    counts = np.bincount(owners)
    share, square = probability.mean(), (probability**2).mean()
    if counts.max() < 2 or not 0 < share < 1:
        return 0.0
    both = (sums**2 - squares)[counts > 1].sum() / (counts * (counts - 1)).sum()
    if_wrong = square / share
    if_right = share * (1 - if_wrong) / (1 - share)
    between = share * if_wrong**2 + (1 - share) * if_right**2 - share**2
    within = square - share**2 - between
    return float(np.clip((both - share**2 - _ALIKE * within) / max(between, 1e-12), 0, 1))


def linear(pool: PairPool) -> Evidence:
    """Four columns: the similarity of a predicted and an actual vector, standardised over all
    images and over all captions, in the space of images and then in that of captions. The vectors
    are predicted by ridge maps from captions to images and back, each learnt from the images of
    other folds: no pair is judged by a map that learnt it, so a wrong pair cannot be memorised."""
    as_images, as_texts = predictors(pool)
    in_images = standardised(pool, as_images, pool.image_vectors)
    in_texts = standardised(pool, pool.text_vectors, as_texts)
    return lambda captions, images: np.concatenate([in_images(captions, images), in_texts(captions, images)], axis=-1)


def predictors(pool: PairPool) -> tuple[Callable, Callable]:
    """From rows of captions to vectors of images, and from rows of images to vectors of captions,
    at length 1."""
    as_images, as_texts = zip(*_maps(pool), strict=True)
    return (
        partial(_predicted, pool.text_vectors, pool.caption_folds, as_images),
        partial(_predicted, pool.image_vectors, pool.folds, as_texts),
    )


def _predicted(vectors: Callable, folds: ndarray, maps: Sequence[ndarray], rows: ndarray) -> ndarray:
    out = np.empty((len(rows), maps[0].shape[1]), np.float32)
    for fold, matrix in enumerate(maps):
        inside = folds[rows] == fold
        out[inside] = vectors(rows[inside]) @ matrix
    return unit(out)


def _maps(pool: PairPool) -> Iterator[tuple[Float[ndarray, "e d"], Float[ndarray, "d e"]]]:
    """For each fold the maps to images and back, learnt from the other folds' pairs."""
    sums = [_products(pool, np.flatnonzero(pool.caption_folds == fold)) for fold in range(pool.folds.max() + 1)]
    total = [np.sum(products, axis=0) for products in zip(*sums, strict=True)]
    for products in sums:
        texts, images, crossed = (whole - part for whole, part in zip(total, products, strict=True))
        yield _solved(texts, crossed, TEXT_RIDGE), _solved(images, crossed.T, IMAGE_RIDGE)


def _products(pool: PairPool, captions: ndarray) -> tuple[ndarray, ...]:
    """Weighted sums of products of captions with captions, images with images, and captions with
    images, over all captions of the images that ``captions`` have."""
    e, d = pool.texts.shape[1], pool.images.shape[1]
    squares, images, crossed = (np.zeros(shape, np.float32) for shape in ((e, e), (d, d), (e, d)))
    for rows in blocks(captions[pool.trust[captions] > 0]):
        texts = pool.text_vectors(rows)
        squares += texts.T @ (texts * pool.trust[rows, None])
    weights = np.bincount(pool.owners, pool.trust, len(pool.images)).astype(np.float32)
    used = np.unique(pool.owners[captions])
    for rows in blocks(used[weights[used] > 0]):
        vectors = pool.image_vectors(rows)
        images += vectors.T @ (vectors * weights[rows, None])
        crossed += pool.caption_sums(rows, pool.trust).T @ vectors
    return squares, images, crossed


def _solved(square: ndarray, crossed: ndarray, ridge: float) -> ndarray:
    if not square.any():  # no pair of another fold
        return np.zeros_like(crossed)
    strength = ridge * np.trace(square) / len(square) + np.finfo(np.float32).tiny
    return linalg.solve(square + strength * np.eye(len(square), dtype=np.float32), crossed, assume_a="pos")


def similarity(pool: PairPool) -> Evidence:
    """The inner product under a model of one space, such as CLIP."""
    return standardised(pool, pool.text_vectors, pool.image_vectors)


def siblings(pool: PairPool) -> Evidence | None:
    """Two columns, which tell of a caption that moved alone: it against the mean of the image's other captions, standardised over
    all images and over all captions; 0 for an image without other captions. None where no image has
    several captions."""
    counts = np.bincount(pool.owners, minlength=len(pool.images))
    if counts.max() < 2:
        return None
    # Trust would tell which pairs were doubted before, and simulated pairs have none of their own.
    equal = np.ones_like(pool.trust)
    compared = standardised(pool, pool.text_vectors, lambda images: unit(pool.caption_sums(images, equal)))

    def evidence(captions: ndarray, images: ndarray) -> ndarray:
        # The caption itself is no witness.
        inside = pool.owners[captions] == images
        sums = pool.caption_sums(images, equal) - pool.texts[captions] * inside[:, None]
        columns = compared(captions, images, unit(sums))
        columns[counts[images] - inside < 1] = 0
        return columns

    return evidence


_MEMBERS: dict[str, Callable[[PairPool], Evidence | None]] = {
    "linear": linear,
    "similarity": similarity,
    SIBLINGS: siblings,
}
