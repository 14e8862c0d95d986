"""The features of each region to a vector a region."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pipeline.core.errors import InputError
from pipeline.train.encoders.image.regions import Params
from pipeline.train.engine.encoder.norm import l2norm_eps


class RegionsImageEncoder(nn.Module):
    """(B, R, D) features to (B, R, embed_size), each region by itself; used as they are, not normalised before the layer.

    A region's vector is ``x / (|x| + 1e-8)``: SCAN, SGRAF and L2RM add the eps to the length.
    """

    def __init__(self, params: Params, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.fc = nn.Linear(in_features, embed_size)

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images regions dim"]:
        """Raises InputError for features of another width than the weights, and for one vector per image."""
        if features.ndim != 3 or features.shape[2] != self.fc.in_features:
            raise InputError(
                f"image encoder 'regions' was built for (regions, {self.fc.in_features}) features of an image, "
                f"got shape {tuple(features.shape)}"
            )
        vectors = self.fc(features)
        return vectors if self.params.no_imgnorm else l2norm_eps(vectors)


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> RegionsImageEncoder:
    """Weights uniform in +-sqrt(6 / (in + out)), bias 0. Raises InputError for one vector per image (rows, D)."""
    if len(feature_shape) != 2:
        raise InputError(
            f"image encoder 'regions' needs features (regions, dim) of an image, they are {feature_shape} each; extract "
            "with grid, faster_rcnn or bottom_up, or take image: linear"
        )
    encoder = RegionsImageEncoder(params, feature_shape[1], embed_size)
    bound = math.sqrt(6.0 / (feature_shape[1] + embed_size))
    nn.init.uniform_(encoder.fc.weight, -bound, bound, generator=rng)
    nn.init.zeros_(encoder.fc.bias)
    return encoder
