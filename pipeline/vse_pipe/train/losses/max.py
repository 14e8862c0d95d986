"""MAX: only the hardest negative of the batch counts (VSE++)."""

from vse_pipe.train.losses.options import MaxOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, curriculum_count, largest, violations


def loss(batch: Scored, params: Params) -> LossTerms:
    """``max_t [m - S_ii + S_it]+ + max_j [m - S_ii + S_ji]+`` for each pair i; rows are images.

    Source: VSE++ (Faghri et al. 2018) Eq. 6. Summed over the batch; the gradient goes to one
    hardest negative, as in the authors' code. At equal similarities the value is ``2 * B *
    margin``, a known plateau; ``curriculum`` avoids it by means over fewer and fewer of the hardest
    negatives.
    """
    count = curriculum_count(batch, params.curriculum, 1)
    return LossTerms(largest(*violations(batch, params.margin), count), "sum")
