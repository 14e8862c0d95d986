"""SUM: every violation counts (VSE0 of the VSE++ paper; Kiros et al. 2014)."""

from vse_pipe.train.losses.options import SumOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, violations


def loss(batch: Scored, params: Params) -> LossTerms:
    """``sum_t [m - S_ii + S_it]+ + sum_j [m - S_ii + S_ji]+`` for each pair i; rows are images.

    Source: VSE++ (Faghri et al. 2018) Eq. 5. Summed over the batch, as in the authors' code.
    """
    texts, images = violations(batch, params.margin)
    return LossTerms(texts.sum(dim=1) + images.sum(dim=0), "sum")
