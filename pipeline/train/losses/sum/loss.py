"""The hinges of all negatives of a batch."""

from pipeline.train.engine.loss.hinge import violations
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms
from pipeline.train.losses.sum import Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """``sum_t [m - S_ii + S_it]+ + sum_j [m - S_ii + S_ji]+`` for each pair i; rows are images.

    Source: VSE++ (Faghri et al. 2018) Eq. 5. Summed over the batch, as in the authors' code.
    """
    texts, images = violations(batch, params.margin)
    per_pair = texts.sum(dim=1) + images.sum(dim=0)
    return LossTerms(per_pair, "sum", {"violations": ((texts > 0).sum() + (images > 0).sum()).detach()})
