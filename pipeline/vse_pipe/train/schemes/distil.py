"""Distillation: the run's loss plus the distance of similarities from those of trained models."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme
from vse_pipe.train.scored import LossTerms, Scored, log_chances


class Distil(Scheme):
    """The distance of each pair is added to its loss, so it has the reduction of the loss."""

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        assert self.setting.teacher is not None
        scored, params = self.scored(images, texts, batch), self.params
        taught = self.setting.teacher.scores(batch.pairs, scored.scores.device).to(scored.scores)
        distance = divergence(scored, replace(scored, scores=taught), params.tau, params.teacher_tau)
        loss = self.setting.loss(scored)
        return LossTerms(loss.per_pair + params.weight * distance, loss.reduction)


def divergence(batch: Scored, teacher: Scored, tau: float, teacher_tau: float) -> Float[Tensor, " pairs"]:
    """``sum_t T_it (log T_it - log p_it) + sum_j U_ij (log U_ij - log q_ij)`` for pair i.

    p and q are the softmaxes of ``S / tau`` over the texts of image i and over the images of text
    i; T and U are those of the teacher. Cells that are neither negative nor diagonal are left out.

    Source: Wu et al., TinyCLIP: CLIP distillation via affinity mimicking and weight inheritance,
    ICCV 2023; their cross entropy also has the teacher's entropy, which has no gradient. The
    temperature is that of Hinton et al., 2015.
    """
    distance = torch.zeros_like(batch.scores[0])
    sides = log_chances(batch, tau), log_chances(teacher, teacher_tau)
    for student, target in zip(*sides, strict=True):
        gap = (target - student).masked_fill(target.isinf(), 0)
        distance = distance + (target.exp() * gap).sum(dim=1)
    return distance


scheme = Distil
