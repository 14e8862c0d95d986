"""One comparison of a stored output with ours."""

import numpy as np


def compare(name: str, ours, stored, atol: float = 1e-5, rtol: float = 1e-4) -> tuple[str, float, float]:
    """(array name, largest absolute difference, the difference allowed: ``atol + rtol * max |stored|``).

    A wrong shape or a value that is not finite on one side only is an infinite difference.
    """
    ours, stored = np.asarray(ours, dtype=np.float64), np.asarray(stored, dtype=np.float64)
    if ours.shape != stored.shape:
        return name, float("inf"), 0.0
    if stored.size == 0:
        return name, 0.0, atol
    difference = np.abs(ours - stored)
    largest = float(np.where(np.isnan(difference), np.inf, difference).max())
    return name, largest, float(atol + rtol * np.abs(stored).max())


def exact(name: str, ours, stored) -> tuple[str, float, float]:
    """As ``compare``, nothing allowed: for integers and index lists."""
    return compare(name, ours, stored, atol=0.0, rtol=0.0)
