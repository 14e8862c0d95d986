"""Ridge maps from captions to images and from images to captions, each learnt from the images of
other folds.

No pair is judged by a map that learnt it, so a wrong pair cannot be memorised."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy import linalg

from vse_pipe.audit.pool import Evidence, PairPool, blocks, standardised, unit

# Ridge of the maps from captions to images and back, in units of the mean variance of a dimension.
TEXT_RIDGE, IMAGE_RIDGE = 2.0, 3.0


def fit(pool: PairPool) -> Evidence:
    """Four columns: the similarity of a predicted and an actual vector, standardised over all
    images and over all captions, in the space of images and then in that of captions."""
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


def _predicted(vectors: Callable, folds: np.ndarray, maps: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    out = np.empty((len(rows), maps[0].shape[1]), np.float32)
    for fold, matrix in enumerate(maps):
        inside = folds[rows] == fold
        out[inside] = vectors(rows[inside]) @ matrix
    return unit(out)


def _maps(pool: PairPool) -> Iterator[tuple[Float[np.ndarray, "e d"], Float[np.ndarray, "d e"]]]:
    """For each fold the maps to images and back, learnt from the other folds' pairs."""
    sums = [_products(pool, np.flatnonzero(pool.caption_folds == fold)) for fold in range(pool.folds.max() + 1)]
    total = [np.sum(products, axis=0) for products in zip(*sums, strict=True)]
    for products in sums:
        texts, images, crossed = (whole - part for whole, part in zip(total, products, strict=True))
        yield _solved(texts, crossed, TEXT_RIDGE), _solved(images, crossed.T, IMAGE_RIDGE)


def _products(pool: PairPool, captions: np.ndarray) -> tuple[np.ndarray, ...]:
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


def _solved(square: np.ndarray, crossed: np.ndarray, ridge: float) -> np.ndarray:
    if not square.any():  # no pair of another fold
        return np.zeros_like(crossed)
    strength = ridge * np.trace(square) / len(square) + np.finfo(np.float32).tiny
    return linalg.solve(square + strength * np.eye(len(square), dtype=np.float32), crossed, assume_a="pos")
