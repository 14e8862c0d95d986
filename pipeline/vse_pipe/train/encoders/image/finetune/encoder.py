"""Pixels, or the features its network makes of them, to a vector an image."""

import math
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vse_pipe.train.encoders.image.finetune import Params
from vse_pipe.train.encoders.image.finetune.network import load_network, restore_network
from vse_pipe.train.encoders.image.finetune.pictures import Drawing, Pictures
from vse_pipe.train.engine.encoder.norm import l2norm
from vse_pipe.train.engine.encoder.rate import OwnRate
from vse_pipe.train.engine.encoder.shapes import check_width, one_vector
from vse_pipe.train.engine.encoder.two_branch import Branch, build_branch

# What stages ask an encoder that reads pixels for.
__all__ = ["Drawing", "FinetuneImageEncoder", "Params", "Pictures", "build", "load_network", "restore_network"]


class FinetuneImageEncoder(nn.Module):
    """(B, crops, S, S, 3) uint8 pixels, or the features that its network makes of them, (B, D), to (B, embed_size).

    The features are scaled to unit length before the head, as in the authors' code for full images. Without
    ``start`` it is the encoder of the epochs from ``after`` on.
    """

    # A module of any kind; it gets a rate of its own, which training looks for.
    backbone: Any

    def __init__(self, params: Params, backbone: nn.Module, head: nn.Linear | Branch) -> None:
        super().__init__()
        self.params = params
        self.backbone = backbone.requires_grad_(params.trainable)
        self.backbone.own_rate = OwnRate(params.lr, params.after)
        if params.restart:
            self.takes_over = self.backbone.own_rate
        self.fc = head
        self._opened = True

    @property
    def trains_on_pixels(self) -> bool:
        """Whether the epoch's batches are pixels; else they are stored features."""
        return self._opened or self.params.before == "crops"

    @property
    def tests_on_pixels(self) -> bool:
        """Whether the network may have moved away from the one that made the stored features."""
        return self._opened and (self.params.trainable or self.params.batch_norm == "updated")

    def start(self, epoch: int) -> None:
        """Before ``epoch``, counted from 0: the network takes part in training from epoch ``after`` on."""
        self._opened = epoch >= self.params.after
        self.backbone.requires_grad_(self.params.trainable and self._opened)

    def train(self, mode: bool = True) -> "FinetuneImageEncoder":
        """As ``nn.Module.train``, but the network's batch normalisation only follows where it is ``updated``.

        Dropout follows, in a fixed network too (VGG-19), as in the authors' code. Modules that hold others stay in
        evaluation mode: Inception gives a second output in training.
        """
        super().train(mode)
        self.backbone.eval()
        if mode:
            for layer in self.backbone.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.train(self._moves_statistics())
                elif not any(True for _ in layer.children()):
                    layer.train()
        return self

    def _moves_statistics(self) -> bool:
        # Also where the network is not run: what cannot work with moving statistics is then refused before the first epoch.
        return self.params.batch_norm == "updated" and (self._opened or not self.trains_on_pixels)

    def forward(
        self, inputs: UInt8[Tensor, "images crops side side 3"] | Float[Tensor, "images features"]
    ) -> Float[Tensor, "images dim"]:
        """Raises InputError for features of another width than the weights."""
        features = self.backbone(inputs) if inputs.dtype == torch.uint8 else inputs
        check_width("image encoder 'finetune'", features, self.fc.in_features)
        vectors = self.fc(l2norm(features))
        if self.params.head == "linear" and not self.params.no_imgnorm:
            vectors = l2norm(vectors)
        return vectors.abs() if self.params.use_abs else vectors


def build(
    params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator, backbone: nn.Module
) -> FinetuneImageEncoder:
    """backbone: pixels to features of ``feature_shape``, with the weights training starts from.

    The linear layer is uniform in +-sqrt(6 / (in + out)), bias 0; a branch is as ``two_branch`` makes it. Raises InputError
    for region features (rows, R, D).
    """
    in_features = one_vector("finetune", feature_shape)
    if params.head == "two_branch":
        branch = build_branch("image encoder 'finetune'", params.branch, in_features, embed_size, rng)
        return FinetuneImageEncoder(params, backbone, branch)
    linear = nn.Linear(in_features, embed_size)
    bound = math.sqrt(6.0 / (in_features + embed_size))
    nn.init.uniform_(linear.weight, -bound, bound, generator=rng)
    nn.init.zeros_(linear.bias)
    return FinetuneImageEncoder(params, backbone, linear)
