"""Canonical correlation analysis: two linear maps in closed form, a baseline without training steps (Klein et al.)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import LinAlgError, blas, cholesky, eigvalsh, solve_triangular, svd
from torch import nn

from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.train.heads import normalize
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import CcaOptions as Params

# Bytes of a block of rows in float64.
_BLOCK_BYTES = 2**26
# The authors add this to a covariance regardless of its scale.
_FLOOR = 1e-8


def scheme(setting: Setting, params: Params) -> "Cca":
    return Cca(setting, params)


class Cca(Scheme):
    """The first epoch solves for the two maps in float64. There are no steps, so the run's loss is not used and history.csv
    has 0.

    Mismatched pairs of ``inject`` count as they are.
    """

    solved = True

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        model, size = setting.model, setting.train.embed_size
        self.images = _layer(model.img, "image encoder linear, no_imgnorm and use_abs false, or")
        self.texts = _layer(model.txt, "text encoder")
        widths = self.images.in_features, self.texts.in_features
        if size > min(widths):
            raise UsageError(
                f"scheme 'cca' has no more than {min(widths)} dimensions for images of {widths[0]} numbers and texts of "
                f"{widths[1]}; set train.embed_size to at most that, not {size}"
            )
        if setting.train.epochs > 1:
            warn(f"cca: nothing changes after the first of train.epochs {setting.train.epochs}")

    def start(self, epoch: int) -> None:
        if epoch:
            return
        moments = Moments.compute(self._blocks)
        width = self.images.in_features
        maps = canonical(moments.covariance, width, self.params.eta, self.setting.train.embed_size)
        with torch.no_grad():
            for layer, weight, mean in (
                (self.images, maps.images, moments.mean[:width]),
                (self.texts, maps.texts, moments.mean[width:]),
            ):
                layer.weight.copy_(torch.from_numpy(weight))
                layer.bias.copy_(torch.from_numpy(-weight @ mean))
        highest, lowest = maps.correlations[[0, -1]]
        say(f"cca: {len(self.setting.pairs)} pairs, correlations {highest:.4f} to {lowest:.4f}")

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        return []

    def _blocks(self) -> Iterator[np.ndarray]:
        pairs = self.setting.pairs
        rows = max(1, _BLOCK_BYTES // (8 * (self.images.in_features + self.texts.in_features)))
        starts = range(0, len(pairs), rows)
        for start in track(starts, len(starts), "cca: moments of the training pairs"):
            batch = pairs.batch(np.arange(start, min(start + rows, len(pairs))))
            yield torch.cat([batch.features.cpu(), *batch.texts], dim=1).double().numpy()


def _layer(encoder: nn.Module, advice: str) -> nn.Linear:
    """The layer of an encoder that has one layer and unit length only. Raises UsageError for other encoders.

    advice: encoders to use instead, for the message.
    """
    layers = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    if len(layers) == 1 and {*layers[0].parameters()} == {*encoder.parameters()}:
        weight = layers[0].weight
        drawn = torch.randn(4, layers[0].in_features, generator=torch.Generator().manual_seed(0)).to(weight.device)
        with torch.no_grad():
            if torch.allclose(encoder(drawn), normalize(layers[0](drawn)), atol=1e-5):
                return layers[0]
    raise UsageError(
        f"scheme 'cca' sets one linear layer with unit length behind it: {advice} two_branch, nonlinear: false"
    )


@dataclass(frozen=True)
class Moments:
    """Moments of rows that consist of an image and its text. covariance: lower triangle, divided by rows - 1."""

    mean: Float64[ndarray, " both"]
    covariance: Float64[ndarray, "both both"]

    @classmethod
    def compute(cls, blocks: Callable[[], Iterable[Float64[ndarray, "_ _"]]]) -> "Moments":
        """blocks: gives all rows, at least two, and is called twice; the second pass is centred to avoid cancellation."""
        total, rows = 0.0, 0
        for block in blocks():
            total, rows = total + block.sum(axis=0), rows + len(block)
        mean = np.asarray(total / rows)
        scatter = np.zeros((len(mean), len(mean)), order="F")
        for block in blocks():
            # In place, with half of the products of a matrix product.
            scatter = blas.dsyrk(1.0, (block - mean).T, beta=1.0, c=scatter, lower=1, overwrite_c=1)
        scatter /= rows - 1
        return cls(mean, scatter)


@dataclass(frozen=True)
class Canonical:
    """correlations: r, falling; images, texts: maps of centred rows, ``diag(r) W^T``."""

    correlations: Float64[ndarray, " dim"]
    images: Float64[ndarray, "dim images"]
    texts: Float64[ndarray, "dim texts"]


def canonical(covariance: Float64[ndarray, "both both"], images: int, eta: float, size: int) -> Canonical:
    """The ``size`` pairs of directions of largest correlation, each scaled by its correlation.

    covariance: as in ``Moments``; it is overwritten. images: number of its image columns. size: at most the smaller side.
    With ``C = C_xx + 1e-8 I``, ``C + eta lambda_max(C) I = L_x L_x^T``, the same for y, and the singular value
    decomposition ``L_x^-1 C_xy L_y^-T = U diag(r) V^T`` the directions are ``W_x = L_x^-T U`` and ``W_y = L_y^-T V``.

    Source: Klein et al., CVPR 2015, as in the code of Plummer et al. (pl-clc, external/hglmm_fv/cca), which solves the
    eigenproblem of one side instead; scaling by r follows Gong et al. (IJCV 2014). Raises InputError for a covariance that is
    singular in spite of eta and floor.
    """
    sides = covariance[:images, :images], covariance[images:, images:]
    try:
        image_factor, text_factor = (_factor(side, eta) for side in sides)
        whitened = solve_triangular(text_factor, covariance[images:, :images], lower=True)
        image_directions, r, text_directions = svd(
            solve_triangular(image_factor, whitened.T, lower=True), full_matrices=False
        )
    except LinAlgError as error:
        raise InputError(
            f"cca: a covariance of the training pairs is singular ({error}); raise scheme.cca.eta"
        ) from error
    largest = r[:size]
    maps = (
        largest[:, None] * solve_triangular(factor, directions[:, :size], lower=True, trans="T").T
        for factor, directions in ((image_factor, image_directions), (text_factor, text_directions.T))
    )
    return Canonical(largest, *maps)


def _factor(covariance: ndarray, eta: float) -> ndarray:
    """The lower Cholesky factor, after the diagonal is raised in place."""
    last = len(covariance) - 1
    diagonal = np.diag_indices(last + 1)
    covariance[diagonal] += _FLOOR
    covariance[diagonal] += eta * eigvalsh(covariance, subset_by_index=[last, last])[0]
    return cholesky(covariance, lower=True)
