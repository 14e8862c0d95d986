"""Image features at unit length, unchanged otherwise: one side of a pretrained pair."""

import torch

from vse_pipe.train.encoders.image.options import IdentityOptions as Params
from vse_pipe.train.heads import Identity, build_identity, one_vector


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Identity:
    """(B, embed_size) to (B, embed_size). Raises InputError for region features (rows, R, D) or another width."""
    return build_identity("image encoder 'identity'", one_vector("identity", feature_shape), embed_size)
