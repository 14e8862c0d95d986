"""The text branch of a two-branch network (structure-preserving embeddings), on one vector a caption."""

import torch

from vse_pipe.train.encoders.text.options import TwoBranchOptions as Params
from vse_pipe.train.heads import Branch, build_branch


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Branch:
    """(B, inputs) to (B, embed_size)."""
    return build_branch("text encoder 'two_branch'", params, inputs, embed_size, rng)
