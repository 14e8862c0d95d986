"""The cross entropy of a batch in both directions."""

from pipeline.train.engine.loss.chances import cross_entropy
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms
from pipeline.train.losses.infonce import Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """``-log p_ii`` among the texts of image i, plus the same among the images of text i, p the softmax of S
    / tau.

    Source: L2RM (Han et al., CVPR 2024) Eq. 3; mean over the batch, the two directions added and not halved.
    The authors take exponentials as they are, which overflow float32 at S / tau above 88; here by
    log-softmax.
    """
    return cross_entropy(batch, params.tau)
