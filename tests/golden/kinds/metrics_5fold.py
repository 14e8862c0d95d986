"""HAL's evaluation on consecutive folds, their mean, and all images at once."""

import numpy as np

from tests.golden.kinds._ranking import Line, both_ways, nearest_to_failing

_RECALLS = [0, 1, 2, 5, 6, 7]


def check(arrays: dict[str, np.ndarray]) -> list[Line]:
    images, captions = arrays["images"], arrays["captions"]
    count = len(arrays["per_fold"])
    folds = zip(np.split(images, count), np.split(captions, count), strict=True)
    figures, leeway = (np.array(part) for part in zip(*[_ten(*fold) for fold in folds], strict=True))
    mean, mean_leeway = figures.mean(axis=0), leeway.mean(axis=0)
    rsum, rsum_leeway = mean[_RECALLS].sum(), mean_leeway[_RECALLS].sum()
    full, full_leeway = _ten(images, captions)
    return [
        nearest_to_failing("per_fold", figures, arrays["per_fold"], leeway),
        nearest_to_failing("mean", mean, arrays["mean"], mean_leeway),
        nearest_to_failing("rsum_mean", rsum, arrays["rsum_mean"], rsum_leeway),
        nearest_to_failing("full_5k", full, arrays["full_5k"], full_leeway),
    ]


def _ten(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The figures of both directions, and how far each may be off."""
    ways = both_ways(images, captions)
    return np.concatenate([way.figures() for way in ways]), np.concatenate([way.leeway() for way in ways])
