"""Ridge regression: one side is predicted from the other by a linear map in closed form, the floor
of every table."""

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import solve

from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.train.closed_form import ClosedForm
from vse_pipe.train.scheme import Setting


class Ridge(ClosedForm):
    """Each epoch solves with one of ``strengths``, so that the best on val is kept as the best
    epoch of any run.

    The joint space is that of the images, centred and scaled to unit length; texts are mapped into
    it. Raises UsageError for another ``train.embed_size`` or another
    number of epochs.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        required = {"embed_size": self.images.in_features, "epochs": len(self.params.strengths)}
        for key, value in required.items():
            if (actual := getattr(setting.train, key)) != value:
                raise UsageError(
                    f"scheme 'ridge' predicts images of {self.images.in_features} numbers, one of "
                    f"its strengths an epoch: set train.{key} {value}, not {actual}"
                )

    def solve(self, covariance: ndarray, epoch: int) -> tuple[ndarray, ndarray]:
        strength = self.params.strengths[epoch]
        weight = ridge_map(covariance, self.images.in_features, strength)
        say(f"ridge: images of {len(self.setting.pairs)} pairs, strength {strength:g}")
        return np.eye(len(weight)), weight


def ridge_map(
    covariance: Float64[ndarray, "both both"], images: int, strength: float
) -> Float64[ndarray, "images texts"]:
    """The map of centred texts to centred images, ``C_it (C_tt + strength v I)^-1``.

    covariance: lower triangle, as of ``moments_of``. images: number of its image columns. v: the
    mean variance of a text dimension, so that a strength does not depend on the scale of the features.
    """
    raised = np.tril(covariance[images:, images:])
    raised[np.diag_indices(len(raised))] += strength * np.trace(raised) / len(raised)
    return solve(raised, covariance[images:, :images], lower=True, assume_a="pos").T


scheme = Ridge
