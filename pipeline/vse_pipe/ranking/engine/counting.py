"""Counting true entries, on the fast path of each device."""

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor


def per_row(mask: Bool[Tensor, "rows items"]) -> Int[Tensor, " rows"]:
    """How many are true in each row. On the CPU by numpy, which is several times faster at it than torch."""
    if mask.is_cpu:
        return torch.from_numpy(np.count_nonzero(mask.numpy(), axis=1))
    return mask.sum(dim=1)
