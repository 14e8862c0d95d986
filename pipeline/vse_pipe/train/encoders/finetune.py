"""The network of the features inside of the model, trained or fixed (VSE++ EncoderImageFull)."""

from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train.encoders.options import ImageFinetuneOptions as Params
from vse_pipe.train.heads import OwnRate, l2norm, linear, unit
from vse_pipe.train.pictures import Pictures, PixelNetwork


class FinetuneImageEncoder(nn.Module):
    """(B, crops, S, S, 3) uint8 pixels, or stored features of its network (B, D), to (B,
    embed_size).

    The features are scaled to unit length before the head, as in the authors' code for full images.
    Before the first call of ``start`` the encoder is that of the epochs from ``after`` on.
    """

    # Any module; ``own_rate`` is added to it.
    backbone: Any

    def __init__(self, params: Params, inputs: int, embed_size: int, rng: torch.Generator, backbone: nn.Module) -> None:
        """backbone: pixels to ``inputs`` features, with the initial weights."""
        super().__init__()
        self.params = params
        self.backbone = backbone.requires_grad_(params.trainable)
        self.backbone.own_rate = OwnRate(params.lr, params.after)
        if params.restart:
            self.takes_over = self.backbone.own_rate
        self.fc = linear(inputs, embed_size, rng)
        self._opened = True

    @property
    def trains_on_pixels(self) -> bool:
        """Whether the epoch's batches are pixels instead of stored features."""
        return self._opened or self.params.before == "crops"

    @property
    def tests_on_pixels(self) -> bool:
        """Whether the network may differ from the network of the stored features."""
        return self._opened and (self.params.trainable or self.params.batch_norm == "updated")

    def start(self, epoch: int) -> None:
        """Prepare ``epoch``, counted from 0; the network is trained from epoch ``after`` on."""
        self._opened = epoch >= self.params.after
        self.backbone.requires_grad_(self.params.trainable and self._opened)

    def train(self, mode: bool = True) -> "FinetuneImageEncoder":
        """As ``nn.Module.train``, but batch normalisation of the network changes its mode only if
        it is ``updated``.

        Dropout changes its mode also in a fixed network (VGG-19), as in the authors' code. Modules
        with children stay in evaluation mode, because Inception has a second output in training.
        """
        super().train(mode)
        self.backbone.eval()
        # Also while the network does not run, so that modes without moving statistics fail before
        # the first epoch.
        moves = self.params.batch_norm == "updated" and (self._opened or not self.trains_on_pixels)
        if mode:
            for layer in self.backbone.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.train(moves)
                elif not any(True for _ in layer.children()):
                    layer.train()
        return self

    def forward(
        self, inputs: UInt8[Tensor, "images crops side side 3"] | Float[Tensor, "images features"]
    ) -> Float[Tensor, "images dim"]:
        features = self.backbone(inputs) if inputs.dtype == torch.uint8 else inputs
        return unit(self.fc(l2norm(features)), self.params)


build_image = FinetuneImageEncoder
pictures = Pictures.join


def network(name: str, source: FeatureSet, meta: dict, seed: int) -> PixelNetwork:
    """The network of the features ``name``. Raises as ``PixelNetwork.of_features``, and the
    backbone's errors for missing weights."""
    backbone = BACKBONES.load(source.backbone.name).build(source.backbone.params, seed)
    return PixelNetwork.of_features(name, source, meta, (backbone, backbone.module, {}))


def restore_network(described: dict) -> nn.Module:
    """The network with arbitrary weights, to be loaded from a model file; the original weights file
    is not needed."""
    model, values = BACKBONES.options(described["name"]), dict(described["params"])
    if "weights" in model.model_fields:
        # The description has sizes, mean and std, which may come from the published weights.
        values |= {"weights": "random", "sha256": None, **described["transform"]}
    backbone = BACKBONES.load(described["name"]).build(model.model_validate(values), seed=0)
    return backbone.module
