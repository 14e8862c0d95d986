"""Vectors at unit length, unchanged otherwise: one side of a pretrained pair."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from vse_pipe.core.errors import InputError
from vse_pipe.core.strict import Strict


class Identity(nn.Module):
    """(B, D) to (B, D). Raises InputError unless ``inputs`` is ``embed_size``."""

    def __init__(self, params: Strict, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__()
        if inputs != embed_size:
            raise InputError(
                f"an encoder 'identity' has {inputs} numbers, the run's vectors have {embed_size}; "
                "features, texts and train.embed_size must be equally wide"
            )

    def forward(self, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        return normalize(vectors)


build_image = build_text = Identity
