"""Canonical correlation analysis: two linear maps in closed form, a baseline without training steps
(Klein et al.)."""

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import cholesky, eigvalsh, solve_triangular, svd

from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.train.closed_form import ClosedForm
from vse_pipe.train.scheme import Setting

# The authors add this to a covariance regardless of its scale.
_FLOOR = 1e-8


class Cca(ClosedForm):
    """The first epoch solves for the two maps in float64."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        most = min(self.images.in_features, self.texts.in_features)
        if setting.train.embed_size > most:
            raise UsageError(
                f"scheme 'cca' has no more than {most} dimensions, those of the narrower side; set "
                f"train.embed_size to at most that, not {setting.train.embed_size}"
            )

    def start(self, epoch: int) -> None:
        if not epoch:
            super().start(epoch)

    def solve(self, covariance: ndarray, epoch: int) -> tuple[ndarray, ndarray]:
        width, size = self.images.in_features, self.setting.train.embed_size
        r, image_map, text_map = canonical(covariance, width, self.params.eta, size)
        say(f"cca: {len(self.setting.pairs)} pairs, correlations {r[0]:.4f} to {r[-1]:.4f}")
        return image_map, text_map


def canonical(
    covariance: Float64[ndarray, "both both"], images: int, eta: float, size: int
) -> tuple[Float64[ndarray, " size"], Float64[ndarray, "size images"], Float64[ndarray, "size texts"]]:
    """The ``size`` largest correlations r, falling, and their directions as maps of centred images
    and of centred texts, each scaled by its correlation: ``diag(r) W^T``.

    covariance: as of ``moments_of``; it is overwritten. images: number of its image columns. size:
    at most the smaller side. With ``C = C_xx + 1e-8 I``, ``C + eta lambda_max(C) I = L_x L_x^T``, the
    same for y, and the singular value decomposition ``L_x^-1 C_xy L_y^-T = U diag(r) V^T`` the
    directions are ``W_x = L_x^-T U`` and ``W_y = L_y^-T V``.

    Source: Klein et al., CVPR 2015, as in the code of Plummer et al. (pl-clc,
    external/hglmm_fv/cca), which solves the eigenproblem of one side instead; scaling by r follows
    Gong et al. (IJCV 2014). Raises LinAlgError for a covariance that is singular in spite of eta
    and floor.
    """
    sides = covariance[:images, :images], covariance[images:, images:]
    factors = [_factor(side, eta) for side in sides]
    whitened = solve_triangular(factors[1], covariance[images:, :images], lower=True)
    whitened = solve_triangular(factors[0], whitened.T, lower=True)
    left, r, right = svd(whitened, full_matrices=False)
    image_map, text_map = (
        r[:size, None] * solve_triangular(factor, directions[:, :size], lower=True, trans="T").T
        for factor, directions in zip(factors, (left, right.T), strict=True)
    )
    return r[:size], image_map, text_map


def _factor(covariance: ndarray, eta: float) -> ndarray:
    """The lower Cholesky factor, after the diagonal is raised in place."""
    last = len(covariance) - 1
    diagonal = np.diag_indices(last + 1)
    covariance[diagonal] += _FLOOR
    covariance[diagonal] += eta * eigvalsh(covariance, subset_by_index=[last, last])[0]
    return cholesky(covariance, lower=True)


scheme = Cca
