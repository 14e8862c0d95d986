"""Canonical correlations and the cosines of the mapped sides; columns of the file are samples."""

import numpy as np

from tests.golden.compare import compare
from vse_pipe.train.schemes.cca import Moments, canonical


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    rows = np.concatenate([arrays["X"], arrays["Y"]]).T
    width, size = len(arrays["X"]), len(arrays["r"])
    found = Moments.compute(lambda: np.array_split(rows, 3))
    maps = canonical(found.covariance, width, float(arrays["eta"]), size)
    centred = rows - found.mean
    mapped = centred[:, :width] @ maps.images.T, centred[:, width:] @ maps.texts.T
    images, texts = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped)
    return [
        compare("r", maps.correlations, arrays["r"], 1e-9, 0.0),
        compare("cosine", images @ texts.T, arrays["cosine"], 1e-9, 0.0),
    ]
