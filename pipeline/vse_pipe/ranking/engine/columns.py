"""Sums over the queries of a strip, equal for items whose scores are equal.

``torch.sum`` and ``torch.logsumexp`` over the first dimension add up the last few columns in another order than the rest: two
items with the same scores get sums that differ in the last bit, and which of them comes first is then a matter of rounding.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.engine.threads import over_rows


def total(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """The sum of each column, float64."""
    if not (strip.is_cpu and strip.dtype in (torch.float32, torch.float64)):
        return strip.sum(dim=0, dtype=torch.float64)
    # numba takes half a second to import, which commands that rank nothing should not pay.
    from vse_pipe.ranking.compiled.leading import add_up

    values, sums = strip.contiguous().numpy(), np.zeros(strip.shape[1])
    over_rows(lambda start, stop: add_up(values, sums, start, stop), len(sums))
    return torch.from_numpy(sums)


def log_sum_exp(strip: Float[Tensor, "rows items"]) -> Float[Tensor, " items"]:
    """``log sum e^x`` of each column, float64: exponents in the precision of the scores, their sum in float64."""
    largest = strip.amax(dim=0)
    # A column of -inf alone has no exponents: -inf - -inf is no number.
    finite = largest.nan_to_num(neginf=0.0)
    return total((strip - finite).exp_()).log_().add_(finite.double())
