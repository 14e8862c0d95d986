"""One linear layer on every region of an image (SCAN EncoderImagePrecomp), for similarities of
fragments."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ImageRegionsOptions as Params
from vse_pipe.train.heads import l2norm_eps, linear


class RegionsImageEncoder(nn.Module):
    """(B, R, D) features to (B, R, embed_size), each region separately; not normalised before the
    layer.

    A region's vector is ``x / (|x| + 1e-8)``, as in SCAN, SGRAF and L2RM.
    """

    def __init__(self, params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.params = params
        self.fc = linear(inputs, embed_size, rng)

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images regions dim"]:
        vectors = self.fc(features)
        return vectors if self.params.no_imgnorm else l2norm_eps(vectors)


build_image = RegionsImageEncoder
