"""Agreement with the image's other captions: one that moved alone disagrees."""

import numpy as np

from vse_pipe.audit.pool import Evidence, PairPool, standardised, unit


def fit(pool: PairPool) -> Evidence | None:
    """Two columns: the caption against the mean of the image's other captions, standardised over
    all images and over all captions; 0 for an image without other captions. None where no image has
    several captions."""
    counts = np.bincount(pool.owners, minlength=len(pool.images))
    if counts.max() < 2:
        return None
    # Trust would tell which pairs were doubted before, and simulated pairs have none of their own.
    equal = np.ones_like(pool.trust)
    compared = standardised(pool, pool.text_vectors, lambda images: unit(pool.caption_sums(images, equal)))

    def evidence(captions: np.ndarray, images: np.ndarray) -> np.ndarray:
        # The caption itself is no witness.
        inside = pool.owners[captions] == images
        sums = pool.caption_sums(images, equal) - pool.texts[captions] * inside[:, None]
        columns = compared(captions, images, unit(sums))
        columns[counts[images] - inside < 1] = 0
        return columns

    return evidence
