"""One linear layer on every region of an image (SCAN EncoderImagePrecomp), for similarities of fragments."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ImageRegionsOptions as Params
from vse_pipe.train.heads import check_regions, draw, l2norm_eps, regions_width


class RegionsImageEncoder(nn.Module):
    """(B, R, D) features to (B, R, embed_size), each region separately; not normalised before the layer.

    A region's vector is ``x / (|x| + 1e-8)``, as in SCAN, SGRAF and L2RM.
    """

    def __init__(self, params: Params, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.fc = nn.Linear(in_features, embed_size)

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images regions dim"]:
        """Raises InputError for features of another width than the weights, and for one vector per image."""
        check_regions("regions", features, self.fc.in_features)
        vectors = self.fc(features)
        return vectors if self.params.no_imgnorm else l2norm_eps(vectors)


def build_image(
    params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator
) -> RegionsImageEncoder:
    """Weights uniform in +-sqrt(6 / (in + out)), bias 0. Raises InputError for one vector per image (rows, D)."""
    encoder = RegionsImageEncoder(params, regions_width("regions", feature_shape), embed_size)
    draw(encoder.fc, rng)
    return encoder
