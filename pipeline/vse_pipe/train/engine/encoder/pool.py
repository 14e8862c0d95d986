"""Sets of vectors to one vector each."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.engine.encoder.gpo import GPO


def pool(
    vectors: Float[Tensor, "sets n dim"], kept: Bool[Tensor, "sets n"], how: GPO | str
) -> Float[Tensor, "sets dim"]:
    """kept: the vectors of each set, at least one; how: ``mean``, ``max`` or a learned pooling."""
    if isinstance(how, GPO):
        return how(vectors, kept)
    if how == "max":
        return vectors.masked_fill(~kept[..., None], -math.inf).amax(dim=1)
    shares = kept / kept.sum(dim=1, keepdim=True)
    return torch.bmm(shares[:, None].to(vectors.dtype), vectors)[:, 0]
