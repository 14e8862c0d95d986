"""Mismatches of a published ``.npy`` of indices (RCL, L2RM, BiCro, NCR)."""

import numpy as np


def corrupt(caption_images: np.ndarray, n_images: int, index: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """The image position paired with each caption; ``caption_images`` as in ``protocols/image.py``.

    index: int (n_images,), the image that replaces each image (RCL, DECL: all captions of an image
    move together), or (captions,), the image of each caption (NCR, BiCro, L2RM). With equal counts
    it is read as the first. Nothing is drawn. ``vse_pipe.artifacts.pairs.read_noise_index`` has
    checked the values."""
    return index[caption_images] if len(index) == n_images else index
