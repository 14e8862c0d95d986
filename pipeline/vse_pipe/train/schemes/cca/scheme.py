"""One epoch without batches: both linear layers are set to the canonical directions of all training pairs."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import UsageError
from vse_pipe.train.engine.encoder.norm import normalize
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.cca import Params
from vse_pipe.train.schemes.cca.canonical import Moments, canonical

# Of the rows that are added to the covariances at a time, in float64.
_BLOCK_BYTES = 2**26


def scheme(setting: Setting, params: Params) -> "Cca":
    return Cca(setting, params)


class Cca(Scheme):
    """The first epoch solves and sets, in float64; there are no steps, so the run's loss has no part and history.csv says 0.

    Where a pair shows another image than its own (``inject``), that one counts.
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
        found = Moments.of(self._blocks)
        width = self.images.in_features
        maps = canonical(found.covariance, width, self.params.eta, self.setting.train.embed_size)
        with torch.no_grad():
            for layer, weight, mean in (
                (self.images, maps.images, found.mean[:width]),
                (self.texts, maps.texts, found.mean[width:]),
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
            yield torch.cat([batch.features, *batch.texts], dim=1).double().numpy()


def _layer(encoder: nn.Module, wanted: str) -> nn.Linear:
    """The one layer of an encoder that gives its output at unit length and does nothing else, which is tried out."""
    layers = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    if len(layers) == 1 and {*layers[0].parameters()} == {*encoder.parameters()}:
        weight = layers[0].weight
        drawn = torch.randn(4, layers[0].in_features, generator=torch.Generator().manual_seed(0)).to(weight.device)
        with torch.no_grad():
            if torch.allclose(encoder(drawn), normalize(layers[0](drawn)), atol=1e-5):
                return layers[0]
    raise UsageError(
        f"scheme 'cca' sets one linear layer with unit length behind it: {wanted} two_branch, nonlinear: false"
    )
