"""The branch for vectors of captions."""

import torch

from vse_pipe.train.encoders.text.two_branch import Params
from vse_pipe.train.engine.encoder.two_branch import Branch, build_branch


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Branch:
    """inputs: numbers in a caption's vector. (B, inputs) to (B, embed_size)."""
    return build_branch("text encoder 'two_branch'", params, inputs, embed_size, rng)
