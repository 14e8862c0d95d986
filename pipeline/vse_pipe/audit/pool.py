"""The vectors of pairs that an audit without a run judges, and evidence about them.

Evidence is a function of captions (n,) and the image beside each (n,) with columns (n, c)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy import sparse
from sklearn.decomposition import PCA

FOLDS = 5
# Dimensions of each side; more cost time and find no more.
DIMENSIONS = 384
# Images of an audit at least: two folds, in each of which a caption can be compared with another
# image.
FEWEST_IMAGES = 4
# Pairs of a block: 20 MiB of vectors with 1,280 dimensions, and 160 MiB of scores against 10,000
# references.
BLOCK = 4096
# Rows from which means and variances of a side are taken.
_SAMPLE = 2048

Evidence = Callable[[ndarray, ndarray], ndarray]


@dataclass(frozen=True)
class PairPool:
    """The vectors of a data set's pairs, all of length 1, float32. owners: row of the image of each
    caption; folds: of each image; trust: of each pair in 0..1, 1 at first; joint: images and
    captions lie in one space; seed: of all draws."""

    images: Float[ndarray, "images d"]
    texts: Float[ndarray, "pairs e"]
    owners: Int[ndarray, " pairs"]
    folds: Int[ndarray, " images"]
    trust: Float[ndarray, " pairs"]
    joint: bool = False
    seed: int = 0

    @classmethod
    def create(cls, images: ndarray, texts: ndarray, owners: ndarray, joint: bool = False, seed: int = 0) -> "PairPool":
        """The pool with random folds. images: ``FEWEST_IMAGES`` or more, each with a pair at
        least."""
        count = len(images)
        folds = np.random.default_rng(seed).permutation(count) % min(FOLDS, count // 2)
        return cls(images, texts, owners, folds, np.ones(len(owners), np.float32), joint, seed)

    @cached_property
    def caption_folds(self) -> Int[ndarray, " pairs"]:
        return self.folds[self.owners]

    def draw(self, count: int, most: int) -> Int[ndarray, " size"]:
        """At most ``most`` different numbers below ``count``, rising, the same for each call."""
        rng = np.random.default_rng([self.seed, count])
        return np.sort(rng.choice(count, min(most, count), replace=False))

    def image_vectors(self, images: ndarray) -> Float[ndarray, "rows d"]:
        return self.images[images]

    def text_vectors(self, captions: ndarray) -> Float[ndarray, "rows e"]:
        return self.texts[captions]

    def caption_sums(self, images: ndarray, weights: ndarray) -> Float[ndarray, "rows e"]:
        """The sum of each image's captions. weights: of all pairs."""
        rows = self._incidence[images]
        places, shape = np.arange(rows.nnz), (len(images), rows.nnz)
        parts = sparse.csr_matrix((weights[rows.indices], places, rows.indptr), shape)
        return parts @ self.texts[rows.indices]

    @cached_property
    def _incidence(self) -> sparse.csr_matrix:
        """1 where an image is shown with a caption."""
        captions = np.arange(len(self.owners))
        return sparse.csr_matrix((np.ones(len(captions), np.float32), (self.owners, captions)))

    def other_images(self, captions: ndarray, rng: np.random.Generator) -> Int[ndarray, " captions"]:
        """For each caption a random image of its fold that it is not shown with."""
        images = np.empty_like(captions)
        for fold in range(self.folds.max() + 1):
            inside = np.flatnonzero(self.caption_folds[captions] == fold)
            peers = np.flatnonzero(self.folds == fold)
            drawn = rng.integers(0, len(peers) - 1, len(inside))
            # The image of the pair is passed over: positions behind it move up by one.
            owners = self.owners[captions[inside]]
            images[inside] = peers[drawn + (drawn >= np.searchsorted(peers, owners))]
        return images


def blocks(rows: ndarray, size: int | None = None) -> Iterator[ndarray]:
    size = size or BLOCK
    return (rows[start : start + size] for start in range(0, len(rows), size))


def unit(vectors: Float[ndarray, "*rows d"]) -> Float[ndarray, "*rows d"]:
    """The rows at length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def reduced(vectors: Float[ndarray, "rows d"], dimensions: int = DIMENSIONS) -> Float[ndarray, "rows e"]:
    """Centred rows along their main directions, length 1."""
    model = PCA(min(dimensions, *vectors.shape), svd_solver="covariance_eigh")
    with np.errstate(invalid="ignore"):  # of equal rows the share of variance is 0 / 0
        return unit(model.fit_transform(vectors))


def standardised(
    pool: PairPool,
    of_captions: Callable[[ndarray], ndarray],
    of_images: Callable[[ndarray], ndarray],
) -> Callable[..., ndarray]:
    """Evidence of two columns: the inner product of a caption and an image, less its mean over all
    images, in standard deviations, and the same over all captions. Means and variances are those of
    a sample. ``vectors`` (n, d) takes the place of those of the images."""
    captions, images = (pool.draw(len(side), _SAMPLE) for side in (pool.owners, pool.images))
    text_mean, text_cov = _moments(np.vstack([*map(of_captions, blocks(captions))]))
    image_mean, image_cov = _moments(np.vstack([*map(of_images, blocks(images))]))

    def columns(captions: ndarray, images: ndarray, vectors: ndarray | None = None) -> ndarray:
        texts = of_captions(captions)
        if vectors is None:
            distinct, places = np.unique(images, return_inverse=True)
            vectors = of_images(distinct)[places]
        products = np.einsum("rd,rd->r", texts, vectors)
        over_images = (products - texts @ image_mean) / _spread(texts, image_cov)
        over_captions = (products - vectors @ text_mean) / _spread(vectors, text_cov)
        return np.stack([over_images, over_captions], axis=-1)

    return columns


def _moments(vectors: ndarray) -> tuple[ndarray, ndarray]:
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    return mean, centred.T @ centred / len(vectors)


def _spread(vectors: ndarray, covariance: ndarray) -> ndarray:
    return np.sqrt(np.maximum(np.einsum("rd,rd->r", vectors @ covariance, vectors), 1e-12))
