"""One linear layer on precomputed features (VSE++ EncoderImagePrecomp)."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.heads import Projection, unit


class LinearImageEncoder(Projection):
    """(B, D) features to (B, embed_size); the features are not normalised before the layer."""

    is_static = True

    def forward(self, features: Float[Tensor, "images features"]) -> Float[Tensor, "images dim"]:
        return unit(self.fc(features), self.params)


build_image = LinearImageEncoder
