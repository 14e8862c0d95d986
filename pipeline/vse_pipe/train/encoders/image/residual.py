"""One layer plus a branch of two layers on extracted features (the projection of VSE-infinity, CVPR 2021)."""

import torch

from vse_pipe.train.encoders.image.options import ResidualOptions as Params
from vse_pipe.train.heads import Residual, build_residual, one_vector


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Residual:
    """(B, D) features to (B, embed_size). Raises InputError for region features (rows, R, D)."""
    return build_residual("image encoder 'residual'", params, one_vector("residual", feature_shape), embed_size, rng)
