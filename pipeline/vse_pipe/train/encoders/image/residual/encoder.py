"""The head for features of images."""

import torch

from vse_pipe.train.encoders.image.residual import Params
from vse_pipe.train.engine.encoder.residual import Residual, build_residual
from vse_pipe.train.engine.encoder.shapes import one_vector


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Residual:
    """(B, D) features to (B, embed_size). Raises InputError for region features (rows, R, D)."""
    return build_residual("image encoder 'residual'", params, one_vector("residual", feature_shape), embed_size, rng)
