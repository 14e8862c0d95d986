"""One linear layer on precomputed features (VSE++ EncoderImagePrecomp)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ImageLinearOptions as Params
from vse_pipe.train.heads import linear, unit


class LinearImageEncoder(nn.Module):
    """(B, D) features to (B, embed_size); the features are not normalised before the layer."""

    def __init__(self, params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.params = params
        self.fc = linear(inputs, embed_size, rng)

    def forward(self, features: Float[Tensor, "images features"]) -> Float[Tensor, "images dim"]:
        return unit(self.fc(features), self.params)


build_image = LinearImageEncoder
