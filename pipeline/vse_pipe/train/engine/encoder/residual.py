"""One linear layer and, added to it, a second branch of two: a head for vectors of networks that are not trained.

Source: Chen et al., Learning the best pooling strategy for visual semantic embedding, CVPR 2021, the projection of
``EncoderImageAggr`` in the authors' code, here of one vector. Other than there, no batch normalisation, so that rows do not
depend on each other, and dropout.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.engine.encoder.layer import draw
from vse_pipe.train.engine.encoder.norm import l2norm
from vse_pipe.train.engine.encoder.residual_options import ResidualOptions
from vse_pipe.train.engine.encoder.shapes import check_width
from vse_pipe.train.engine.encoder.thin import without_some


class Residual(nn.Module):
    """(B, D) to (B, embed_size): ``fc(x) + mlp(x)`` at unit length."""

    def __init__(self, name: str, options: ResidualOptions, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.name, self.options = name, options
        self.fc = nn.Linear(in_features, embed_size)
        hidden = nn.Linear(in_features, options.hidden)
        last = nn.Linear(options.hidden, embed_size)
        self.mlp = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(options.dropout), last)

    def forward(self, vectors: Float[Tensor, "rows features"]) -> Float[Tensor, "rows dim"]:
        """Raises InputError for vectors of another width."""
        check_width(self.name, vectors, self.fc.in_features)
        if self.training and self.options.drop:
            vectors = without_some(vectors, self.options.drop)
        vectors = l2norm(self.fc(vectors) + self.mlp(vectors))
        return vectors.abs() if self.options.use_abs else vectors


def build_residual(
    name: str, options: ResidualOptions, in_features: int, embed_size: int, rng: torch.Generator
) -> Residual:
    """Each layer's weights uniform in +-sqrt(6 / (in + out)), biases 0; the one layer first."""
    head = Residual(name, options, in_features, embed_size)
    for layer in head.modules():
        if isinstance(layer, nn.Linear):
            draw(layer, rng)
    return head
