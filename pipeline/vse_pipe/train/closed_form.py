"""Schemes without steps: two linear maps from the moments of all training pairs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from scipy.linalg import LinAlgError, blas
from torch import nn
from torch.nn.functional import normalize

from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.train.scheme import Scheme, Setting

# Bytes of a block of rows in float64.
_BLOCK_BYTES = 2**26


class ClosedForm(Scheme, ABC):
    """Sets one linear layer a side, in ``start``, from ``moments``. There are no steps, so the
    run's loss is not used and history.csv has 0. Mismatched pairs of ``inject`` count as they are.

    Raises UsageError for encoders that are more than one linear
    layer and unit length, InputError for a singular covariance.
    """

    solved = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.images = _layer(setting.model.img, self.name)
        self.texts = _layer(setting.model.txt, self.name)

    def start(self, epoch: int) -> None:
        mean, covariance = self.moments
        try:
            weights = self.solve(covariance, epoch)
        except LinAlgError as error:
            raise InputError(
                f"scheme '{self.name}': a covariance of the training pairs is singular ({error}): "
                "features are constant, or eta or strengths too small"
            ) from error
        means = np.split(mean, [self.images.in_features])
        with torch.no_grad():
            for layer, weight, center in zip((self.images, self.texts), weights, means, strict=True):
                layer.weight.copy_(torch.from_numpy(weight))
                layer.bias.copy_(torch.from_numpy(-weight @ center))

    @abstractmethod
    def solve(self, covariance: Float64[ndarray, "both both"], epoch: int) -> tuple[ndarray, ndarray]:
        """The maps of centred images and of centred texts for ``epoch``, counted from 0."""

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        return []

    @cached_property
    def moments(self) -> tuple[ndarray, ndarray]:
        """Of the training pairs; a row is an image's features and then its text's."""
        return moments_of(self._blocks)

    def _blocks(self) -> Iterator[np.ndarray]:
        pairs = self.setting.pairs
        rows = max(1, _BLOCK_BYTES // (8 * (self.images.in_features + self.texts.in_features)))
        starts = range(0, len(pairs), rows)
        for start in track(starts, len(starts), f"{self.name}: moments of the training pairs"):
            batch = pairs.batch(np.arange(start, min(start + rows, len(pairs))))
            yield torch.cat([batch.features.cpu(), *batch.texts], dim=1).double().numpy()


def _layer(encoder: nn.Module, name: str) -> nn.Linear:
    """The layer of an encoder that has one layer and unit length only."""
    layers = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    if len(layers) == 1 and {*layers[0].parameters()} == {*encoder.parameters()}:
        rows = torch.randn(4, layers[0].in_features, generator=torch.Generator().manual_seed(0))
        rows = rows.to(layers[0].weight.device)
        with torch.no_grad():
            if torch.allclose(encoder(rows), normalize(layers[0](rows)), atol=1e-5):
                return layers[0]
    raise UsageError(
        f"scheme '{name}' sets one linear layer with unit length behind it: take two_branch with "
        "nonlinear: false, or image encoder linear with no_imgnorm and use_abs false"
    )


def moments_of(
    blocks: Callable[[], Iterable[Float64[ndarray, "_ _"]]],
) -> tuple[Float64[ndarray, " both"], Float64[ndarray, "both both"]]:
    """The mean of rows that consist of an image and its text, and the lower triangle of their
    covariance, divided by rows - 1.

    blocks: gives all rows, at least two, and is called twice; the second pass is centred to avoid
    cancellation.
    """
    total, rows = 0.0, 0
    for block in blocks():
        total, rows = total + block.sum(axis=0), rows + len(block)
    mean = np.asarray(total / rows)
    scatter = np.zeros((len(mean), len(mean)), order="F")
    for block in blocks():
        # In place, with half of the products of a matrix product.
        scatter = blas.dsyrk(1.0, (block - mean).T, beta=1.0, c=scatter, lower=1, overwrite_c=1)
    scatter /= rows - 1
    return mean, scatter
