"""Stacked cross attention: how much each region matters to each word, or the other way round."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.engine.alignment.choices import Norm

EPS = 1e-8
# Added under roots, so that a zero has a gradient of zero and not NaN; far below what a float32 sum of squares resolves.
TINY = 1e-30


def attention(raw: Float[Tensor, "a c b q"], norm: Norm, temperature: float) -> Float[Tensor, "a c b q"]:
    """Weights that add up to 1 over the context (axis 1); ``norm`` is applied over the queries (axis 3) first.

    Lee et al., Stacked Cross Attention, ECCV 2018, Eq. 1 to 3. As in the authors' code "clipped" is a leaky ReLU of slope 0.1
    (the paper: max(0, x)), and 1e-8 is added to the norm.
    """
    if norm.startswith("clipped"):
        raw = torch.nn.functional.leaky_relu(raw, 0.1)
    if norm.endswith("l2norm"):
        size = raw.square().sum(dim=3, keepdim=True).clamp_min(TINY).sqrt()
        raw = raw * (temperature / (size + EPS))
    elif norm == "softmax":
        raw = raw.softmax(dim=3) * temperature
    else:
        raw = raw * temperature
    return raw.softmax(dim=1)


def lengths(weights: Float[Tensor, "a c b q"], gram: Float[Tensor, "a c c"]) -> Float[Tensor, "a b q"]:
    """The length of each weighted sum of context vectors, from their inner products ``gram`` alone."""
    mixed = (gram @ weights.flatten(2)).view_as(weights)
    return (weights * mixed).sum(dim=1).clamp_min(TINY).sqrt()


def gram(vectors: Float[Tensor, "a c dim"]) -> Float[Tensor, "a c c"]:
    return torch.bmm(vectors, vectors.transpose(1, 2))
