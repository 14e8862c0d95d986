"""Similarities drawn to those of models that are trained already, beside the run's own loss (distillation)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.batch import LossTerms, Scored, log_chances
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import DistilOptions as Params


def scheme(setting: Setting, params: Params) -> "Distil":
    return Distil(setting, params)


class Distil(Scheme):
    """A pair's distance is added to its term, so under a loss that is summed over the batch it is summed too."""

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        assert setting.teacher is not None
        self.teacher = setting.teacher

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored = self.scored(images, texts, batch)
        taught = self.teacher.scores(batch.pairs, scored.scores.device).to(scored.scores.dtype)
        params, loss = self.params, self.setting.loss(scored)
        distance = divergence(scored, replace(scored, scores=taught), params.tau, params.teacher_tau)
        parts = {**loss.parts, "distance": distance.mean().detach()}
        return LossTerms(loss.per_pair + params.weight * distance, loss.reduction, parts)


def divergence(batch: Scored, teacher: Scored, tau: float, teacher_tau: float) -> Float[Tensor, " pairs"]:
    """``sum_t T_it (log T_it - log p_it) + sum_j U_ij (log U_ij - log q_ij)`` for pair i: the Kullback-Leibler divergence
    of p and q, the softmaxes of ``S / tau`` over the texts of image i and the images of text i, from T and U, those of the
    teacher.

    Source: Wu et al., TinyCLIP: CLIP distillation via affinity mimicking and weight inheritance, ICCV 2023; their cross
    entropy is this plus the teacher's own entropy, which has no gradient. Hinton et al., 2015, have the temperature. Cells that
    are no negatives, the positives apart, have no part.
    """
    distance = torch.zeros_like(batch.scores[0])
    sides = zip(log_chances(batch, tau), log_chances(teacher, teacher_tau), strict=True)
    for ours, theirs in sides:
        without = theirs.isinf()
        distance = distance + (theirs.exp() * (theirs - ours).masked_fill(without, 0)).sum(dim=1)
    return distance
