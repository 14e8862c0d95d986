"""InfoNCE with reverse cross entropy, for a warm-up on partly mismatched pairs (L2RM, CVPR
2024)."""

from vse_pipe.train.losses.options import InfonceRceOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, with_reverse


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/2 (CE + RCE)`` in both directions: CE is InfoNCE, and ``RCE_i = -sum_t p_it log(delta_it
    + 1e-7)``.

    Source: L2RM (Han et al., CVPR 2024) Eq. 5 as in the authors' code, with its factor 1/2; mean
    over the batch. The code uses it on all data sets, the paper only at extreme rates of mismatched
    pairs. RCE of a mismatched pair is at most ``-log(1e-7)``, whereas CE has no bound.
    """
    return with_reverse(batch, params.tau)
