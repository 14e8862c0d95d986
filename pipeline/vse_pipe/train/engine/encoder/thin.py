"""Sets and vectors with some elements dropped at random, so that an encoder learns from many (Chen et al., CVPR 2021)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def thinned(present: Bool[Tensor, "sets n"], share: float) -> Bool[Tensor, "sets n"]:
    """The elements that stay: each goes with chance ``share``, but one of every set stays. Draws from torch's own generator,
    which training ties to (seed, epoch)."""
    draws = torch.rand(present.shape, device=present.device).masked_fill(~present, -1.0)
    return present & ((draws >= share) | (draws == draws.amax(dim=1, keepdim=True)))


def without_some(vectors: Float[Tensor, "rows dim"], share: float) -> Float[Tensor, "rows dim"]:
    """Each number 0 with chance ``share``, the others scaled so that the row keeps its length; a row of which nothing would
    be left stays whole. Of tf-idf at unit length it is the vector of the caption without these words. Draws as ``thinned``."""
    kept = vectors * (torch.rand_like(vectors) >= share)
    lengths, left = (side.norm(dim=1, keepdim=True) for side in (vectors, kept))
    return torch.where(left > 0, kept * (lengths / left), vectors)
