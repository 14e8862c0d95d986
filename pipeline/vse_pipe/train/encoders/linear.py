"""One linear layer on precomputed features (VSE++ EncoderImagePrecomp)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ImageLinearOptions as Params
from vse_pipe.train.heads import check_width, draw, l2norm, one_vector


class LinearImageEncoder(nn.Module):
    """(B, D) features to (B, embed_size); the features are not normalised before the layer."""

    def __init__(self, params: Params, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.fc = nn.Linear(in_features, embed_size)

    def forward(self, features: Float[Tensor, "images features"]) -> Float[Tensor, "images dim"]:
        """Raises InputError for features of another width than the weights."""
        check_width("image encoder 'linear'", features, self.fc.in_features)
        vectors = self.fc(features)
        if not self.params.no_imgnorm:
            vectors = l2norm(vectors)
        return vectors.abs() if self.params.use_abs else vectors


def build_image(
    params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator
) -> LinearImageEncoder:
    """Weights uniform in +-sqrt(6 / (in + out)), bias 0. Raises InputError for region features (rows, R, D)."""
    encoder = LinearImageEncoder(params, one_vector("linear", feature_shape), embed_size)
    draw(encoder.fc, rng)
    return encoder
