"""The vector of a caption as it is, at unit length: one side of a pretrained pair."""

import torch

from vse_pipe.train.encoders.text.options import IdentityOptions as Params
from vse_pipe.train.heads import Identity, build_identity


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Identity:
    """inputs: numbers in a caption's vector. (B, embed_size) to the same. Raises InputError for another width."""
    return build_identity("text encoder 'identity'", inputs, embed_size)
