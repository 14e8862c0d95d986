"""A branch of a two-branch network (structure-preserving embeddings) on one vector a row, for one
side or both.

Source: Wang, Li and Lazebnik, Learning deep structure-preserving image-text embeddings, CVPR 2016,
Figure 1 and section 3.1.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from vse_pipe.train.encoders.options import BranchShape
from vse_pipe.train.heads import uniform, without_some


class Branch(nn.Module):
    """(B, D) to (B, embed_size). Layers are ``fc1``, ``fc2``, ``bn``, as in the authors' PyTorch
    code.

    Weights and biases are uniform in +-1/sqrt(in), PyTorch's default, as in the authors' code; the
    paper gives none. Batch normalisation starts at scale 1, shift 0.
    """

    def __init__(self, params: BranchShape, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.params = params
        first = nn.Linear(inputs, params.hidden if params.nonlinear else embed_size)
        self.fc1: nn.Module = first
        if params.nonlinear:
            normalised = [nn.BatchNorm1d(params.hidden)] if params.batch_norm == "first" else []
            self.fc1 = nn.Sequential(first, *normalised, nn.ReLU(), nn.Dropout(params.dropout))
            self.fc2 = nn.Linear(params.hidden, embed_size)
            if params.batch_norm == "last":
                self.bn = nn.BatchNorm1d(embed_size)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                uniform(layer.parameters(), 1.0 / math.sqrt(layer.in_features), rng)

    def forward(self, vectors: Float[Tensor, "rows features"]) -> Float[Tensor, "rows dim"]:
        if self.training and self.params.drop:
            vectors = without_some(vectors, self.params.drop)
        for layer in self.children():
            vectors = layer(vectors)
        vectors = normalize(vectors)
        return vectors.abs() if self.params.use_abs else vectors


build_image = build_text = Branch
