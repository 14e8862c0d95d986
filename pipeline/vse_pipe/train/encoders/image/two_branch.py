"""The image branch of a two-branch network (structure-preserving embeddings)."""

import torch

from vse_pipe.train.encoders.image.options import TwoBranchOptions as Params
from vse_pipe.train.heads import Branch, build_branch, one_vector


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Branch:
    """(B, D) features to (B, embed_size). Raises InputError for region features (rows, R, D)."""
    in_features = one_vector("two_branch", feature_shape)
    return build_branch("image encoder 'two_branch'", params, in_features, embed_size, rng)
