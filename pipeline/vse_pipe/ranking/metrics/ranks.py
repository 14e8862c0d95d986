"""Ranks by counting: no sort, one look at each score."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine.counting import per_row
from vse_pipe.ranking.metrics.truth import Truth

Ties = Literal["pessimistic", "average", "optimistic"]


def best_ranks(
    scores: Float[Tensor, "rows items"], rows: slice, truth: Truth, ties: Ties
) -> Float[np.ndarray, " rows"]:
    """0-based rank of each query's best correct item among all items.

    It is the number of items that score strictly higher, plus of the wrong items with exactly its score all
    (pessimistic), half (average) or none (optimistic). The authors' code takes whatever order an unstable argsort
    leaves, so a collapsed model may get any value. Raises InputError on NaN or infinite scores: they would rank first.
    """
    low, high = scores.aminmax()
    if not (low.isfinite() and high.isfinite()):
        raise InputError(f"scores of queries {rows.start} to {rows.stop - 1} hold NaN or infinite values")
    local, columns = truth.of(rows, scores.device)
    correct = scores[local, columns]
    lowest = torch.full((len(scores),), -torch.inf, dtype=scores.dtype, device=scores.device)
    best = lowest.scatter_reduce(0, local, correct, "amax")
    ranks = {}
    if ties != "pessimistic":
        ranks["optimistic"] = per_row(scores > best[:, None])
    if ties != "optimistic":
        itself = torch.bincount(local[correct == best[local]], minlength=len(scores))
        ranks["pessimistic"] = per_row(scores >= best[:, None]) - itself
    return torch.stack(list(ranks.values())).double().mean(dim=0).cpu().numpy()
