"""Image-level mismatches: an image's captions move together (DECL, RCL, L2RM)."""

import numpy as np


def corrupt(caption_images: np.ndarray, n_images: int, rate: float, rng: np.random.RandomState) -> np.ndarray:
    """The image position paired with each caption.

    caption_images: int (captions,), the true image position 0..n_images-1 of each caption, any
    number per image. Two shuffles of the legacy generator in the order of the RCL / DECL loaders,
    so that ``np.random.RandomState(seed)`` gives their index files. ``floor(rate * n)`` images take
    part and fixed points stay, so the share of mismatches is slightly below ``rate``. L2RM's files
    repeat this index per caption."""
    positions = np.arange(n_images)
    order = np.arange(n_images)
    rng.shuffle(order)
    chosen = order[: int(rate * n_images)]
    moved = np.array(chosen)
    rng.shuffle(moved)
    positions[chosen] = moved
    return positions[caption_images]
