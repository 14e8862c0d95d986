"""Agreement of neighbourhoods: what similar images are shown with, and what similar captions are shown with.

The idea is that of GSC (Zhao et al., CVPR 2024): structures within a modality and across both must agree."""

import numpy as np
from scipy import sparse

from vse_pipe.audit.doubts.options import NeighboursOptions
from vse_pipe.audit.evidence import Evidence, PairPool, captions_of_images, standardised, unit


def fit(pool: PairPool, options: NeighboursOptions) -> Evidence:
    """Four columns: the captions of the ``k`` nearest images against the caption, and the images of the ``k`` nearest
    captions against the image, each standardised over all images and over all captions.

    Neighbours are sought among ``reference`` other images and captions of other images."""
    images = np.sort(pool.draw(len(pool.images), min(options.reference, len(pool.images))))
    captions = np.sort(pool.draw(len(pool.shown), min(options.reference, len(pool.shown))))
    owners = pool.shown[captions]
    texts = captions_of_images(pool)[images]
    pictures = pool.images[owners] * pool.trust[captions, None]

    def described(rows: np.ndarray) -> np.ndarray:
        return _means(pool.images[rows] @ pool.images[images].T, rows[:, None] == images, options.k, texts)

    def depicted(rows: np.ndarray) -> np.ndarray:
        scores = pool.texts[rows] @ pool.texts[captions].T
        return _means(scores, pool.shown[rows][:, None] == owners, options.k, pictures)

    by_images = standardised(pool, lambda rows: pool.texts[rows], described)
    by_captions = standardised(pool, depicted, lambda rows: pool.images[rows])
    return lambda rows, others: np.concatenate([by_images(rows, others), by_captions(rows, others)], axis=-1)


def _means(scores: np.ndarray, excluded: np.ndarray, k: int, values: np.ndarray) -> np.ndarray:
    """The mean, at length 1, of the ``values`` of the ``k`` best columns of each row."""
    scores[excluded] = -np.inf
    k = min(k, scores.shape[1])
    best = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
    rows = np.repeat(np.arange(len(scores)), k)
    return unit(sparse.csr_matrix((np.ones(best.size, np.float32), (rows, best.ravel())), scores.shape) @ values)
