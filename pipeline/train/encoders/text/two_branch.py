"""The text branch of a two-branch network (structure-preserving embeddings); reads one vector a caption."""

import torch

from pipeline.train.engine.encoder.two_branch import Branch, Options, build_branch

reads = "vectors"


class Params(Options):
    """Those of ``Options``, shared by both branches."""


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> Branch:
    """inputs: numbers in a caption's vector. (B, inputs) to (B, embed_size)."""
    return build_branch("text encoder 'two_branch'", params, inputs, embed_size, rng)
