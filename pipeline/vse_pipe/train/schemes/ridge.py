"""Ridge regression: one side is predicted from the other by a linear map in closed form, the floor of every table."""

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import LinAlgError, solve

from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.train.closed_form import ClosedForm, Moments
from vse_pipe.train.scheme import Setting
from vse_pipe.train.schemes.options import RidgeOptions as Params


def scheme(setting: Setting, params: Params) -> "Ridge":
    return Ridge(setting, params)


class Ridge(ClosedForm):
    """Each epoch solves with one of ``strengths``, so that the best on val is kept as the best epoch of any run.

    The joint space is that of the predicted side, its vectors centred and scaled to unit length; the other side is mapped
    into it. Raises UsageError for another ``train.embed_size`` or another number of epochs.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting, "ridge")
        self.params, self._moments = params, None
        side = self.images if params.predicts == "images" else self.texts
        required = {"embed_size": side.in_features, "epochs": len(params.strengths)}
        for key, value in required.items():
            if getattr(setting.train, key) != value:
                raise UsageError(
                    f"scheme 'ridge' predicts {params.predicts} of {side.in_features} numbers, with one of "
                    f"{len(params.strengths)} strengths an epoch: set train.{key} {value}, not {getattr(setting.train, key)}"
                )

    _moments: Moments | None

    def start(self, epoch: int) -> None:
        if self._moments is None:
            self._moments = self.moments()
        moments, strength, width = self._moments, self.params.strengths[epoch], self.images.in_features
        predicts_images = self.params.predicts == "images"
        weight = ridge_map(moments.covariance, width, strength, predicts_images)
        identity = np.eye(len(weight))
        self.set_layers(moments.mean, *((identity, weight) if predicts_images else (weight, identity)))
        say(f"ridge: {self.params.predicts} of {len(self.setting.pairs)} pairs, strength {strength:g}")


def ridge_map(
    covariance: Float64[ndarray, "both both"], images: int, strength: float, predicts_images: bool
) -> Float64[ndarray, "target source"]:
    """The map of centred source rows to centred target rows, ``C_ts (C_ss + strength v I)^-1``.

    covariance: lower triangle, as in ``Moments``. images: number of its image columns. v: the mean variance of a source
    dimension, so that a strength does not depend on the scale of the features. Raises InputError for a source without
    variance, and for one that is singular in spite of the strength.
    """
    image_side, text_side = covariance[:images, :images], covariance[images:, images:]
    crossed = covariance[images:, :images]
    source, crossed = (text_side, crossed) if predicts_images else (image_side, crossed.T)
    raised = np.tril(source)
    raised[np.diag_indices(len(raised))] += strength * np.trace(source) / len(source)
    try:
        return solve(raised, crossed, lower=True, assume_a="pos").T
    except LinAlgError as error:
        raise InputError(
            f"ridge: the features of the training pairs are singular ({error}); raise scheme.ridge.strengths"
        ) from error
