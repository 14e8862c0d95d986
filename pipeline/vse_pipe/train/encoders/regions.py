"""One linear layer on every region of an image (SCAN EncoderImagePrecomp), for similarities of
fragments."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.fragments import l2norm_eps
from vse_pipe.train.heads import Projection


class RegionsImageEncoder(Projection):
    """(B, R, D) features to (B, R, embed_size), each region separately; not normalised before the
    layer.

    Vectors are divided by their length, as in SCAN, SGRAF and L2RM.
    """

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images regions dim"]:
        return l2norm_eps(self.fc(features))


build_image = RegionsImageEncoder
