"""InfoNCE with reverse cross entropy, to warm up on pairs some of which are mismatched (L2RM, CVPR 2024)."""

from pydantic import Field, PositiveFloat

from pipeline.core.strict import Strict
from pipeline.train.engine.loss.chances import FLOOR, with_reverse
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms


class Params(Strict):
    """tau: temperature that similarities are divided by (0.05 in L2RM); floor: what is added to the labels 1
    and 0.

    floor: 1e-7 in the authors' code; the smaller, the dearer a probability given to a negative:
    ``-log(floor)``.
    """

    tau: PositiveFloat = 0.05
    floor: float = Field(FLOOR, gt=0, lt=1)


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/2 (CE + RCE)``, each of both directions: CE is InfoNCE, ``RCE_i = -sum_t p_it log(delta_it +
    floor)``.

    Source: L2RM (Han et al., CVPR 2024) Eq. 5 as the authors' code has it, mean over the batch: the half is
    theirs, and they warm up with it on all data sets, where the paper keeps RCE for extreme rates of
    mismatched pairs. A mismatched pair costs at most ``-log(floor)`` of RCE, whereas its CE has no bound.
    """
    return with_reverse(batch, params.tau, params.floor)
