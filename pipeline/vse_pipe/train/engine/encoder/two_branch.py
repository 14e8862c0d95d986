"""One branch of a two-branch network: linear layers with nonlinearities between them, unit length at the end.

Source: Wang, Li and Lazebnik, Learning deep structure-preserving image-text embeddings, CVPR 2016, Figure 1 and section 3.1.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.train.engine import whole_batch
from vse_pipe.train.engine.encoder.branch_options import Options
from vse_pipe.train.engine.encoder.norm import normalize
from vse_pipe.train.engine.encoder.shapes import check_width
from vse_pipe.train.engine.encoder.thin import without_some


class Branch(nn.Module):
    """(B, D) to (B, embed_size). Layers are ``fc1``, ``fc2``, ... as in the authors' PyTorch code; ``bn`` if it comes last."""

    def __init__(self, name: str, options: Options, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.name, self.options, self.in_features = name, options, in_features
        hidden = [options.hidden] if isinstance(options.hidden, int) else options.hidden
        sizes = [in_features, *(hidden if options.nonlinear else []), embed_size]
        layers: dict[str, nn.Module] = {}
        for place in range(1, len(sizes) - 1):
            layers[f"fc{place}"] = _hidden(options, sizes[place - 1], sizes[place])
        layers[f"fc{len(sizes) - 1}"] = nn.Linear(sizes[-2], sizes[-1])
        if options.nonlinear and options.batch_norm == "last":
            layers["bn"] = _batch_norm(embed_size)
        for key, layer in layers.items():
            self.add_module(key, layer)
        self._needs_two = options.nonlinear and options.batch_norm != "none"

    def forward(self, vectors: Float[Tensor, "rows features"]) -> Float[Tensor, "rows dim"]:
        """Raises InputError for vectors of another width, and for a lone row in training under batch normalisation."""
        check_width(self.name, vectors, self.in_features)
        if self.training and self._needs_two and whole_batch.count(vectors) < 2:
            raise InputError(
                f"{self.name} normalises over the batch and needs at least 2 rows in training, got {len(vectors)}; "
                "change train.batch_size or set batch_norm: none"
            )
        if self.training and self.options.drop:
            vectors = without_some(vectors, self.options.drop)
        for layer in self.children():
            vectors = layer(vectors)
        vectors = normalize(vectors)
        return vectors.abs() if self.options.use_abs else vectors


def _hidden(options: Options, inputs: int, outputs: int) -> nn.Sequential:
    normalised = [_batch_norm(outputs)] if options.batch_norm == "first" else []
    return nn.Sequential(nn.Linear(inputs, outputs), *normalised, nn.ReLU(), nn.Dropout(options.dropout))


def _batch_norm(size: int) -> nn.BatchNorm1d:
    """eps 1e-5 and momentum 0.1 (authors' PyTorch code). Their TensorFlow code also says 0.1, meaning PyTorch's 0.9."""
    return nn.BatchNorm1d(size, eps=1e-5, momentum=0.1)


def build_branch(name: str, options: Options, in_features: int, embed_size: int, rng: torch.Generator) -> Branch:
    """Weights and biases uniform in +-1/sqrt(in), PyTorch's default, as the authors' PyTorch code leaves it; the paper says
    nothing. Batch normalisation starts at scale 1, shift 0."""
    branch = Branch(name, options, in_features, embed_size)
    for layer in branch.modules():
        if isinstance(layer, nn.Linear):
            bound = 1.0 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
            nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
    return branch
