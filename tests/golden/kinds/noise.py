"""The two mismatch protocols from a seed, exactly as the authors' loaders draw them (five captions an image)."""

import numpy as np

from tests.golden.compare import exact
from vse_pipe.inject.protocols import caption, image


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    n, rate, seed = int(arrays["n_images"]), float(arrays["ratio"]), int(arrays["seed"])
    per_image = len(arrays["caption_level_t2i"]) // n
    true = np.repeat(np.arange(n), per_image)
    by_caption = caption.corrupt(true, n, rate, np.random.RandomState(seed))
    by_image = image.corrupt(true, n, rate, np.random.RandomState(seed))
    return [
        exact("caption_level_t2i", by_caption, arrays["caption_level_t2i"]),
        exact("caption_level_clean", by_caption == true, arrays["caption_level_clean"]),
        exact("image_level_inx", by_image[::per_image], arrays["image_level_inx"]),
        exact("image_level_t2i", by_image, arrays["image_level_t2i"]),
    ]
