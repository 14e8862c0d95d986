"""The branch for features of images."""

import torch

from vse_pipe.train.encoders.image.two_branch import Params
from vse_pipe.train.engine.encoder.shapes import one_vector
from vse_pipe.train.engine.encoder.two_branch import Branch, build_branch


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Branch:
    """(B, D) features to (B, embed_size). Raises InputError for region features (rows, R, D)."""
    in_features = one_vector("two_branch", feature_shape)
    return build_branch("image encoder 'two_branch'", params, in_features, embed_size, rng)
