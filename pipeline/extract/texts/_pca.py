"""Principal components of vectors that come in blocks; all of them are never in memory at once."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float32, Float64


def principal(
    blocks: Iterable[Float32[np.ndarray, "rows dim"]], components: int
) -> tuple[Float64[np.ndarray, " dim"], Float64[np.ndarray, "components dim"]]:
    """The mean and the ``components`` directions of largest variance, largest first, each of unit length.

    Needs 8 * dim * dim bytes for the covariance and as much again for its eigenvectors. The sign of a direction is
    such that its largest entry is positive. Raises ValueError when there are fewer directions than ``components``.
    """
    from scipy.linalg import eigh

    total, products, count = 0.0, 0.0, 0
    for block in blocks:
        block = block.astype(np.float64)
        total = total + block.sum(axis=0)
        products += block.T @ block
        count += len(block)
    dim = len(total)
    if components > min(dim, count - 1):
        raise ValueError(f"{components} principal components of {count} vectors with {dim} dimensions")
    mean = total / count
    covariance = products / count - np.outer(mean, mean)
    _, vectors = eigh(
        covariance, overwrite_a=True, check_finite=False, subset_by_index=[dim - components, dim - 1]
    )
    directions = vectors.T[::-1]
    signs = np.sign(directions[np.arange(components), np.abs(directions).argmax(axis=1)])
    return mean, directions * signs[:, None]
