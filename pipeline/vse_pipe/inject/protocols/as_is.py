"""The pairs of the data set, right or wrong: for data that is noisy by itself, such as CC152K."""

import numpy as np


def corrupt(caption_images: np.ndarray, n_images: int, basis: None, rng: np.random.RandomState) -> np.ndarray:
    """``caption_images``: every caption stays; nobody knows whether it matches."""
    return np.array(caption_images)
