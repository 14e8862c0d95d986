"""How far the similarities of a batch are from a teacher's."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.chances import log_chances
from vse_pipe.train.engine.loss.scored import Scored


def divergence(batch: Scored, teacher: Scored, tau: float, teacher_tau: float) -> Float[Tensor, " pairs"]:
    """``sum_t T_it (log T_it - log p_it) + sum_j U_ij (log U_ij - log q_ij)`` for pair i: the Kullback-Leibler divergence
    of p and q, the softmaxes of ``S / tau`` over the texts of image i and the images of text i, from T and U, those of the
    teacher.

    Source: Wu et al., TinyCLIP: CLIP distillation via affinity mimicking and weight inheritance, ICCV 2023; their cross
    entropy is this plus the teacher's own entropy, which has no gradient. Hinton et al., 2015, have the temperature. Cells that
    are no negatives, the positives apart, have no part.
    """
    found = torch.zeros_like(batch.scores[0])
    sides = zip(log_chances(batch, tau), log_chances(teacher, teacher_tau), strict=True)
    for ours, theirs in sides:
        without = theirs.isinf()
        found = found + (theirs.exp() * (theirs - ours).masked_fill(without, 0)).sum(dim=1)
    return found
