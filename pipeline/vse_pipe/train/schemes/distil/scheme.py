"""The run's own loss and the distance from a teacher, whose vectors of the training split are on the disk."""

from dataclasses import replace

from torch import Tensor

from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.data import Batch
from vse_pipe.train.engine.loss.terms import LossTerms
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.distil import Params
from vse_pipe.train.schemes.distil.divergence import divergence


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
        params, own = self.params, self.setting.loss(scored)
        distance = divergence(scored, replace(scored, scores=taught), params.tau, params.teacher_tau)
        parts = {**own.parts, "distance": distance.mean().detach()}
        return LossTerms(own.per_pair + params.weight * distance, own.reduction, parts)
