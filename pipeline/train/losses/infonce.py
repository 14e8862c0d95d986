"""InfoNCE in both directions: every other pair of the batch is a class of its own (L2RM, CVPR 2024)."""

from pydantic import PositiveFloat

from pipeline.core.strict import Strict
from pipeline.train.engine.loss.chances import cross_entropy
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms


class Params(Strict):
    """tau: temperature that similarities are divided by; 0.05 in L2RM's paper and code."""

    tau: PositiveFloat = 0.05


def loss(batch: Scored, params: Params) -> LossTerms:
    """``-log p_ii`` among the texts of image i, plus the same among the images of text i, p the softmax of S
    / tau.

    Source: L2RM (Han et al., CVPR 2024) Eq. 3; mean over the batch, the two directions added and not halved.
    The authors take exponentials as they are, which overflow float32 at S / tau above 88; here by
    log-softmax.
    """
    return cross_entropy(batch, params.tau)
