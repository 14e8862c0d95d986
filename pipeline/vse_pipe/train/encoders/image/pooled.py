"""One linear layer on every region of an image, then pooling to one vector (VSE-infinity, CVPR 2021)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.image.options import PooledOptions as Params
from vse_pipe.train.heads import GPO, check_regions, draw, l2norm, pool, regions_width, thinned


class PooledImageEncoder(nn.Module):
    """(B, R, D) features of regions, grid cells or patches to (B, embed_size).

    Source: Chen et al., CVPR 2021, ``EncoderImageAggr`` without its residual branch of two layers with batch normalisation.
    Unlike their code, an image never loses all of its regions.
    """

    def __init__(self, params: Params, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.fc = nn.Linear(in_features, embed_size)
        self.gpo = GPO() if params.pooling == "gpo" else None

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images dim"]:
        """Raises InputError for features of another width than the weights, and for one vector per image."""
        check_regions("pooled", features, self.fc.in_features)
        mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        if self.training and self.params.drop:
            mask = thinned(mask, self.params.drop)
        vectors = pool(self.fc(features), mask, self.gpo or self.params.pooling)
        if not self.params.no_imgnorm:
            vectors = l2norm(vectors)
        return vectors.abs() if self.params.use_abs else vectors


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> PooledImageEncoder:
    """The layer's weights uniform in +-sqrt(6 / (in + out)), bias 0, then those of GPO. Raises InputError for one vector per
    image (rows, D)."""
    encoder = PooledImageEncoder(params, regions_width("pooled", feature_shape), embed_size)
    draw(encoder.fc, rng)
    if encoder.gpo is not None:
        encoder.gpo.draw(rng)
    return encoder
