"""SUM: every violation counts (VSE0 of the VSE++ paper; Kiros et al. 2014)."""

from vse_pipe.train.losses.options import SumOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, curriculum_count, largest, violations


def loss(batch: Scored, params: Params) -> LossTerms:
    """``sum_t [m - S_ii + S_it]+ + sum_j [m - S_ii + S_ji]+`` for each pair i; rows are images.

    Source: VSE++ (Faghri et al. 2018) Eq. 5. Summed over the batch, as in the authors' code; with
    ``hardest`` over the largest of each sum.
    """
    texts, images = violations(batch, params.margin)
    per_pair = texts.sum(dim=1) + images.sum(dim=0)
    if params.hardest is not None:
        count = min(curriculum_count(batch, params.curriculum, params.hardest), len(texts) - 1)
        per_pair = count * largest(texts, images, count)
    return LossTerms(per_pair, "sum")
