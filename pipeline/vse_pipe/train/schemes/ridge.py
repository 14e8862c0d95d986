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
from vse_pipe.train.schemes.options import RidgeOptions as Params


class Ridge(ClosedForm):
    """Each epoch solves with one of ``strengths``, so that the best on val is kept as the best
    epoch of any run.

    The joint space is that of the predicted side, its vectors centred and scaled to unit length;
    the other side is mapped into it. Raises UsageError for another ``train.embed_size`` or another
    number of epochs.
    """

    name = "ridge"

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting, params)
        side = self.images if params.predicts == "images" else self.texts
        required = {"embed_size": side.in_features, "epochs": len(params.strengths)}
        for key, value in required.items():
            if (actual := getattr(setting.train, key)) != value:
                raise UsageError(
                    f"scheme 'ridge' predicts {params.predicts} of {side.in_features} numbers, one "
                    f"of its strengths an epoch: set train.{key} {value}, not {actual}"
                )

    def solve(self, epoch: int) -> None:
        mean, covariance = self.moments
        strength, is_image = self.params.strengths[epoch], self.params.predicts == "images"
        weight = ridge_map(covariance, self.images.in_features, strength, is_image)
        identity = np.eye(len(weight))
        self.set_layers(mean, *((identity, weight) if is_image else (weight, identity)))
        say(f"ridge: {self.params.predicts} of {len(self.setting.pairs)} pairs, strength {strength:g}")


def ridge_map(
    covariance: Float64[ndarray, "both both"], images: int, strength: float, predicts_images: bool
) -> Float64[ndarray, "target source"]:
    """The map of centred source rows to centred target rows, ``C_ts (C_ss + strength v I)^-1``.

    covariance: lower triangle, as of ``moments_of``. images: number of its image columns. v: the mean
    variance of a source dimension, so that a strength does not depend on the scale of the features.
    """
    crossed = covariance[images:, :images]
    source, crossed = (
        (covariance[images:, images:], crossed) if predicts_images else (covariance[:images, :images], crossed.T)
    )
    raised = np.tril(source)
    raised[np.diag_indices(len(raised))] += strength * np.trace(source) / len(source)
    return solve(raised, crossed, lower=True, assume_a="pos").T


scheme = Ridge
