"""The side of images."""

import torch

from vse_pipe.train.encoders.image.identity import Params
from vse_pipe.train.engine.encoder.identity import Identity, build_identity
from vse_pipe.train.engine.encoder.shapes import one_vector


def build(params: Params, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Identity:
    """(B, embed_size) features to the same. Raises InputError for region features (rows, R, D), and another width."""
    return build_identity("image encoder 'identity'", one_vector("identity", feature_shape), embed_size)
