"""The first weights of a linear layer."""

import math

import torch
from torch import nn


def draw(layer: nn.Linear, rng: torch.Generator) -> None:
    """Uniform in +-sqrt(6 / (in + out)), bias 0, as VSE++ and its descendants have it."""
    bound = math.sqrt(6.0 / (layer.in_features + layer.out_features))
    nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
    nn.init.zeros_(layer.bias)
