"""The head for vectors of captions."""

import torch

from vse_pipe.train.encoders.text.residual import Params
from vse_pipe.train.engine.encoder.residual import Residual, build_residual


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Residual:
    """inputs: numbers in a caption's vector. (B, inputs) to (B, embed_size)."""
    return build_residual("text encoder 'residual'", params, inputs, embed_size, rng)
