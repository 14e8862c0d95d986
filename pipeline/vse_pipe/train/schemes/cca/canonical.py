"""Canonical correlations of images and texts with regularised covariances, from rows that come in blocks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import LinAlgError, blas, cholesky, eigvalsh, solve_triangular, svd

from vse_pipe.core.errors import InputError

# What the authors add to a covariance whatever its scale.
_FLOOR = 1e-8


@dataclass(frozen=True)
class Moments:
    """Of rows that hold an image and then its text. covariance: its lower triangle alone, divided by rows - 1."""

    mean: Float64[ndarray, " both"]
    covariance: Float64[ndarray, "both both"]

    @classmethod
    def of(cls, blocks: Callable[[], Iterable[Float64[ndarray, "_ _"]]]) -> "Moments":
        """blocks: called twice, gives all rows, at least two; the second pass is centred, so that nothing cancels."""
        total, rows = 0.0, 0
        for block in blocks():
            total, rows = total + block.sum(axis=0), rows + len(block)
        mean = np.asarray(total / rows)
        scatter = np.zeros((len(mean), len(mean)), order="F")
        for block in blocks():
            # In place, and half the products of a matrix product.
            scatter = blas.dsyrk(1.0, (block - mean).T, beta=1.0, c=scatter, lower=1, overwrite_c=1)
        scatter /= rows - 1
        return cls(mean, scatter)


@dataclass(frozen=True)
class Canonical:
    """correlations: r, falling; images, texts: what centred rows are multiplied by, ``diag(r) W^T``."""

    correlations: Float64[ndarray, " dim"]
    images: Float64[ndarray, "dim images"]
    texts: Float64[ndarray, "dim texts"]


def canonical(covariance: Float64[ndarray, "both both"], images: int, eta: float, size: int) -> Canonical:
    """The ``size`` pairs of directions of largest correlation, each scaled by its own. covariance: as of ``Moments``, and
    spoilt; images: columns of it that are the images'; size: at most the smaller side.

    With ``C = C_xx + 1e-8 I``, ``C + eta lambda_max(C) I = L_x L_x^T``, the same for y, and the singular value
    decomposition ``L_x^-1 C_xy L_y^-T = U diag(r) V^T`` the directions are ``W_x = L_x^-T U`` and ``W_y = L_y^-T V``.

    Source: Klein et al., CVPR 2015, as in the code of Plummer et al. (pl-clc, external/hglmm_fv/cca), which solves the
    eigenproblem of one side instead; scaling by r is Gong et al.'s (IJCV 2014). Raises InputError where a covariance is
    singular in spite of eta and floor.
    """
    sides = covariance[:images, :images], covariance[images:, images:]
    try:
        of_image, of_text = (_factor(side, eta) for side in sides)
        whitened = solve_triangular(of_text, covariance[images:, :images], lower=True)
        left, r, right = svd(solve_triangular(of_image, whitened.T, lower=True), full_matrices=False)
    except LinAlgError as error:
        raise InputError(
            f"cca: a covariance of the training pairs is singular ({error}); raise scheme.cca.eta"
        ) from error
    kept = r[:size]
    maps = (
        kept[:, None] * solve_triangular(factor, directions[:, :size], lower=True, trans="T").T
        for factor, directions in ((of_image, left), (of_text, right.T))
    )
    return Canonical(kept, *maps)


def _factor(covariance: ndarray, eta: float) -> ndarray:
    """Of Cholesky, lower, after the diagonal was raised in place."""
    last = len(covariance) - 1
    diagonal = np.diag_indices(last + 1)
    covariance[diagonal] += _FLOOR
    covariance[diagonal] += eta * eigvalsh(covariance, subset_by_index=[last, last])[0]
    return cholesky(covariance, lower=True)
