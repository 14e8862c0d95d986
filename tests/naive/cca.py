"""Canonical correlations as the generalised eigenproblem they are defined by."""

import numpy as np
from scipy.linalg import eigh


def correlations_and_cosines(images: np.ndarray, texts: np.ndarray, eta: float, size: int) -> tuple[list, np.ndarray]:
    """(size,) r and the (rows, rows) cosines of the mapped rows of ``images`` and ``texts``, parallel.

    ``[[0, Cxy], [Cyx, 0]] w = r [[Cx, 0], [0, Cy]] w``, the largest r first; each half of w scaled to ``w^T C w = 1``.
    """
    images, texts = images - images.mean(axis=0), texts - texts.mean(axis=0)
    width, both = images.shape[1], images.shape[1] + texts.shape[1]
    left, right = np.zeros((both, both)), np.zeros((both, both))
    for side, place in ((images, slice(0, width)), (texts, slice(width, both))):
        covariance = np.cov(side.T) + 1e-8 * np.eye(side.shape[1])
        right[place, place] = covariance + eta * eigh(covariance)[0].max() * np.eye(side.shape[1])
    left[:width, width:] = images.T @ texts / (len(images) - 1)
    left[width:, :width] = left[:width, width:].T
    values, vectors = eigh(left, right)
    mapped = [np.zeros((len(images), size)), np.zeros((len(images), size))]
    for column, place in enumerate(np.argsort(values)[::-1][:size]):
        for side, half, out in ((images, slice(0, width), mapped[0]), (texts, slice(width, both), mapped[1])):
            direction = vectors[half, place]
            direction = direction / np.sqrt(direction @ right[half, half] @ direction)
            out[:, column] = values[place] * (side @ direction)
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped]
    return sorted(values)[::-1][:size], units[0] @ units[1].T
