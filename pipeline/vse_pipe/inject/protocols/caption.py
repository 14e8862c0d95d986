"""Caption-level mismatches: each caption moves by itself (NCR, BiCro)."""

import numpy as np


def corrupt(caption_images: np.ndarray, n_images: int, rate: float, rng: np.random.RandomState) -> np.ndarray:
    """The image position paired with each caption; arguments as in ``protocols/image.py``.

    Two shuffles of the legacy generator in the order of NCR's loader. A caption that stays with its
    image is no mismatch, so the share of mismatches is slightly below ``rate``."""
    positions = np.array(caption_images)
    order = np.arange(len(caption_images))
    rng.shuffle(order)
    chosen = order[: int(rate * len(order))]
    moved = positions[chosen]
    rng.shuffle(moved)
    positions[chosen] = moved
    return positions
