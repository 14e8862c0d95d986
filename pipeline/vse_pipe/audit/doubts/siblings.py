"""Agreement with the other captions of the image: a caption that was moved alone disagrees with them."""

from dataclasses import replace

import numpy as np

from vse_pipe.audit.doubts.options import SiblingsOptions
from vse_pipe.audit.evidence import Evidence, PairPool, captions_of_images, standardised, unit


def fit(pool: PairPool, options: SiblingsOptions) -> Evidence | None:
    """Two columns: the caption against the mean of the image's other captions, standardised over all images and over all
    captions; 0 for an image without other captions. None where no image has several captions."""
    counts = np.bincount(pool.shown, minlength=len(pool.images))
    if counts.max() < 2:
        return None
    # Trust would tell which pairs were doubted before, and simulated pairs have none of their own.
    sums = captions_of_images(replace(pool, trust=np.ones_like(pool.trust)))
    compared = standardised(pool, lambda captions: pool.texts[captions], lambda images: unit(sums[images]))

    def evidence(captions: np.ndarray, images: np.ndarray) -> np.ndarray:
        # The caption itself is no witness.
        inside = pool.shown[captions] == images
        columns = compared(captions, images, unit(sums[images] - pool.texts[captions] * inside[..., None]))
        columns[counts[images] - inside < 1] = 0
        return columns

    return evidence
