"""How many scores of a row reach each of its thresholds; any number of thresholds a row."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

# Cells of a block up to which it is counted before numba, which takes a second, has been imported.
_SMALL = 1 << 18
Counted = tuple[Int[np.ndarray, " thresholds"], bool]


def counts(
    scores: Float[Tensor, "rows items"],
    starts: Int[np.ndarray, " rows_and_one"],
    thresholds: Float[np.ndarray, " thresholds"],
    strictly: bool,
) -> Counted:
    """For each threshold the number of scores of its row above it, or if not ``strictly`` at least as high;
    and whether all scores are finite (the counts mean nothing if not).

    thresholds: in the precision of the scores, those of row r from ``starts[r]`` to ``starts[r + 1]``.
    """
    if scores.numel() > _SMALL and scores.is_cpu and scores.dtype in (torch.float32, torch.float64):
        return compiled(scores, starts, thresholds, strictly)
    return by_tensors(scores, starts, thresholds, strictly)


def compiled(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` of float32 or float64 on the CPU, in one pass over them."""
    from vse_pipe.ranking.compiled.thresholds import count

    found = np.empty(len(thresholds), np.int64)
    finite = count(scores.contiguous().numpy(), starts, thresholds, strictly, found)
    return found, bool(finite)


def by_tensors(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` on the device of the scores: all first thresholds at once, then all second ones of the rows
    that have two, and so on. Memory: a copy of the block and a mask of its shape."""
    low, high = scores.aminmax()
    numbers = np.diff(starts)
    found = torch.zeros(len(thresholds), dtype=torch.int64, device=scores.device)
    bounds = torch.from_numpy(thresholds).to(scores.device)
    for turn in range(numbers.max(initial=0)):
        having = np.flatnonzero(numbers > turn)
        places = torch.from_numpy(starts[having] + turn).to(scores.device)
        rows = scores if len(having) == len(scores) else scores[torch.from_numpy(having).to(scores.device)]
        bound = bounds[places][:, None]
        found[places] = (rows > bound if strictly else rows >= bound).sum(dim=1)
    return found.cpu().numpy(), bool(low.isfinite() and high.isfinite())
