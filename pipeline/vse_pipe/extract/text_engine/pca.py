"""Principal components of vectors that come in blocks; all of them are never in memory at once."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float32, Float64


def principal(
    blocks: Iterable[Float32[np.ndarray, "_ dim"]], components: int
) -> tuple[Float64[np.ndarray, " dim"], Float64[np.ndarray, "components dim"]]:
    """The mean and the ``components`` directions of largest variance, largest first, each of unit length.

    The covariance, 8 * dim * dim bytes, is summed and decomposed in place; the decomposition needs about as much again.
    The sign of a direction is such that its largest entry is positive. Raises ValueError when there are fewer
    directions than ``components``.
    """
    from scipy.linalg import eigh

    total, products, count = np.zeros(1), None, 0
    for block in blocks:
        block = np.ascontiguousarray(block, dtype=np.float64)
        total = total + block.sum(axis=0)
        products = _added(products, block, 1.0)
        count += len(block)
    dim = len(total)
    if components > min(dim, count - 1):
        raise ValueError(f"{components} principal components of {count} vectors with {dim} dimensions")
    mean = total / count
    covariance = _added(products, mean[None], -count)
    covariance /= count
    _, vectors = eigh(
        covariance, lower=False, overwrite_a=True, check_finite=False, subset_by_index=[dim - components, dim - 1]
    )
    directions = vectors.T[::-1]
    signs = np.sign(directions[np.arange(components), np.abs(directions).argmax(axis=1)])
    return mean, directions * signs[:, None]


def _added(sums: np.ndarray | None, rows: Float64[np.ndarray, "rows dim"], factor: float) -> np.ndarray:
    """The upper triangle of sums + factor * rows.T @ rows, in the memory of ``sums``."""
    from scipy.linalg.blas import dsyrk

    dim = rows.shape[1]
    sums = np.zeros((dim, dim), order="F") if sums is None else sums
    return dsyrk(factor, rows.T, beta=1.0, c=sums, overwrite_c=True)
