"""A branch of a two-branch network (structure-preserving embeddings) on one vector a row, for one side or both."""

import torch

from vse_pipe.train.encoders.options import BranchShape
from vse_pipe.train.heads import Branch, build_branch, one_vector


def build_image(params: BranchShape, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Branch:
    """(B, D) features to (B, embed_size). Raises InputError for region features (rows, R, D)."""
    in_features = one_vector("two_branch", feature_shape)
    return build_branch("image encoder 'two_branch'", params, in_features, embed_size, rng)


def build_text(params: BranchShape, inputs: int, embed_size: int, rng: torch.Generator) -> Branch:
    """(B, inputs) to (B, embed_size)."""
    return build_branch("text encoder 'two_branch'", params, inputs, embed_size, rng)
