"""The side of captions."""

import torch

from vse_pipe.train.encoders.text.identity import Params
from vse_pipe.train.engine.encoder.identity import Identity, build_identity


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Identity:
    """inputs: numbers in a caption's vector. (B, embed_size) to the same. Raises InputError for another width."""
    return build_identity("text encoder 'identity'", inputs, embed_size)
