"""One layer plus a branch of two layers on one vector a row.

Source: the projection of ``EncoderImageAggr`` in the authors' code of Chen et al., Learning the
best pooling strategy for visual semantic embedding, CVPR 2021, on one vector. Other than there, it
has no batch normalisation, so that rows do not depend on each other, and it has dropout.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ResidualShape
from vse_pipe.train.heads import Projection, linear, unit, without_some


class Residual(Projection):
    """(B, D) to (B, embed_size): ``fc(x) + mlp(x)`` at unit length."""

    def __init__(self, params: ResidualShape, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__(params, inputs, embed_size, rng)
        hidden = linear(inputs, params.hidden, rng)
        last = linear(params.hidden, embed_size, rng)
        self.mlp = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(params.dropout), last)

    def forward(self, vectors: Float[Tensor, "rows features"]) -> Float[Tensor, "rows dim"]:
        if self.training and self.params.drop:
            vectors = without_some(vectors, self.params.drop)
        return unit(self.fc(vectors) + self.mlp(vectors), self.params)


build_image = build_text = Residual
