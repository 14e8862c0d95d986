"""Small score matrices for the tests of this folder."""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.scores import Scores

cosines = st.floats(-1, 1, width=32).map(float)


def matrices(min_rows: int = 1, elements: st.SearchStrategy[float] = cosines) -> st.SearchStrategy[np.ndarray]:
    shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8).filter(lambda shape: shape[0] >= min_rows)
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=elements))


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right.T


def dense(scores: np.ndarray) -> Scores:
    return Scores.dense(torch.from_numpy(scores))


def own(scores: np.ndarray) -> Bank:
    """The bank of the very queries that are ranked."""
    return Bank(dense(scores), is_transductive=True)


def whole(scores: Scores) -> np.ndarray:
    return torch.cat([block for _, block in scores.blocks()]).numpy()


def unit_vectors(rows: int, dim: int, seed: int) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return torch.from_numpy(values / np.linalg.norm(values, axis=1, keepdims=True))
