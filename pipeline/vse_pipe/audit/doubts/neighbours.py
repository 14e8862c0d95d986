"""Agreement of neighbourhoods: what similar images are shown with, and what similar captions are
shown with.

The idea is that of GSC (Zhao et al., CVPR 2024): structures within a modality and across both must
agree."""

import numpy as np
from scipy import sparse

from vse_pipe.audit.pool import Evidence, PairPool, standardised, unit

# Neighbours of an image and of a caption, and images, and as many captions, drawn at random, among
# which they are sought.
K, REFERENCE = 30, 4096


def fit(pool: PairPool) -> Evidence:
    """Four columns: the captions of the ``K`` nearest images against the caption, and the images of
    the ``K`` nearest captions against the image, each standardised over all images and over all
    captions.

    Neighbours are sought among ``REFERENCE`` other images and captions of other images."""
    images, captions = (pool.draw(len(side), REFERENCE) for side in (pool.images, pool.owners))
    owners = pool.owners[captions]
    near_images, near_texts = pool.image_vectors(images), pool.text_vectors(captions)
    texts = pool.caption_sums(images, pool.trust)
    pictures = pool.image_vectors(owners) * pool.trust[captions, None]

    def described(rows: np.ndarray) -> np.ndarray:
        scores = pool.image_vectors(rows) @ near_images.T
        return _means(scores, rows[:, None] == images, K, texts)

    def depicted(rows: np.ndarray) -> np.ndarray:
        scores = pool.text_vectors(rows) @ near_texts.T
        return _means(scores, pool.owners[rows][:, None] == owners, K, pictures)

    of_images = standardised(pool, pool.text_vectors, described)
    of_captions = standardised(pool, depicted, pool.image_vectors)
    return lambda rows, images: np.concatenate([of_images(rows, images), of_captions(rows, images)], axis=-1)


def _means(scores: np.ndarray, excluded: np.ndarray, k: int, values: np.ndarray) -> np.ndarray:
    """The mean, at length 1, of the ``values`` of the ``k`` best columns of each row."""
    scores[excluded] = -np.inf
    k = min(k, scores.shape[1])
    best = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
    rows = np.repeat(np.arange(len(scores)), k)
    return unit(sparse.csr_matrix((np.ones(best.size, np.float32), (rows, best.ravel())), scores.shape) @ values)
