"""InfoNCE with reverse cross entropy, to warm up on pairs some of which are mismatched (L2RM, CVPR 2024)."""

from vse_pipe.train.batch import LossTerms, Scored, with_reverse
from vse_pipe.train.losses.options import InfonceRceOptions as Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/2 (CE + RCE)``, each of both directions: CE is InfoNCE, ``RCE_i = -sum_t p_it log(delta_it +
    floor)``.

    Source: L2RM (Han et al., CVPR 2024) Eq. 5 as the authors' code has it, mean over the batch: the half is
    theirs, and they warm up with it on all data sets, where the paper keeps RCE for extreme rates of
    mismatched pairs. A mismatched pair costs at most ``-log(floor)`` of RCE, whereas its CE has no bound.
    """
    return with_reverse(batch, params.tau, params.floor)
