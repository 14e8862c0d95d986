"""One layer plus a branch of two layers on one vector a caption (the projection of VSE-infinity, CVPR 2021)."""

import torch

from vse_pipe.train.encoders.text.options import ResidualOptions as Params
from vse_pipe.train.heads import Residual, build_residual


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Residual:
    """(B, inputs) to (B, embed_size)."""
    return build_residual("text encoder 'residual'", params, inputs, embed_size, rng)
