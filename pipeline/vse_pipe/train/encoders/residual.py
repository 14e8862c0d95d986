"""One layer plus a branch of two layers on one vector a row.

Source: the projection of ``EncoderImageAggr`` in the authors' code of Chen et al., Learning the best pooling strategy for
visual semantic embedding, CVPR 2021, on one vector. Other than there, it has no batch normalisation, so that rows do not
depend on each other, and it has dropout.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ResidualShape
from vse_pipe.train.heads import check_width, draw, l2norm, one_vector, without_some


class Residual(nn.Module):
    """(B, D) to (B, embed_size): ``fc(x) + mlp(x)`` at unit length."""

    def __init__(
        self, name: str, options: ResidualShape, in_features: int, embed_size: int, rng: torch.Generator
    ) -> None:
        """Weights uniform in +-sqrt(6 / (in + out)), biases 0; ``fc`` is drawn first."""
        super().__init__()
        self.name, self.options = name, options
        self.fc = nn.Linear(in_features, embed_size)
        hidden = nn.Linear(in_features, options.hidden)
        last = nn.Linear(options.hidden, embed_size)
        self.mlp = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(options.dropout), last)
        for layer in (self.fc, hidden, last):
            draw(layer, rng)

    def forward(self, vectors: Float[Tensor, "rows features"]) -> Float[Tensor, "rows dim"]:
        """Raises InputError for vectors of another width."""
        check_width(self.name, vectors, self.fc.in_features)
        if self.training and self.options.drop:
            vectors = without_some(vectors, self.options.drop)
        vectors = l2norm(self.fc(vectors) + self.mlp(vectors))
        return vectors.abs() if self.options.use_abs else vectors


def build_image(
    params: ResidualShape, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator
) -> Residual:
    """Raises InputError for region features (rows, R, D)."""
    return Residual("image encoder 'residual'", params, one_vector("residual", feature_shape), embed_size, rng)


def build_text(params: ResidualShape, inputs: int, embed_size: int, rng: torch.Generator) -> Residual:
    """inputs: width of a caption's vector."""
    return Residual("text encoder 'residual'", params, inputs, embed_size, rng)
