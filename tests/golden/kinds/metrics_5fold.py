"""HAL's evaluation on five consecutive folds, their mean, and all images at once."""

import numpy as np

from tests.golden.kinds._ranking import FLOAT64, Line, both_ways, five, line


def check(arrays: dict[str, np.ndarray]) -> list[Line]:
    images, captions = arrays["images"], arrays["captions"]
    folds = len(arrays["per_fold"])
    parts = zip(np.split(images, folds), np.split(captions, folds), strict=True)
    per_fold = np.array([_ten(*part) for part in parts])
    mean = per_fold.mean(axis=0)
    return [
        line("per_fold", per_fold, arrays["per_fold"], FLOAT64),
        line("mean", mean, arrays["mean"], FLOAT64),
        line("rsum_mean", mean[[0, 1, 2, 5, 6, 7]].sum(), arrays["rsum_mean"], FLOAT64),
        line("full_5k", _ten(images, captions), arrays["full_5k"], FLOAT64),
    ]


def _ten(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    return np.concatenate([five(found) for found in both_ways(images, captions)])
