"""Caption vectors at unit length, unchanged otherwise: one side of a pretrained pair."""

import torch

from vse_pipe.train.encoders.text.options import IdentityOptions as Params
from vse_pipe.train.heads import Identity, build_identity


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Identity:
    """(B, embed_size) to (B, embed_size). inputs: width of a caption's vector. Raises InputError for another width."""
    return build_identity("text encoder 'identity'", inputs, embed_size)
