"""NCR (NeurIPS 2021): each of two networks is trained on the trust of the other in every pair."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import LossMixture, fit_gaussian
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.peers import TwoNetworks, soft_margins, soft_triplets
from vse_pipe.train.scheme import Setting
from vse_pipe.train.schemes.options import NcrOptions as Params
from vse_pipe.train.schemes.options import Variant
from vse_pipe.train.scored import LossTerms, Scored, sample_losses


def scheme(setting: Setting, params: Params) -> "Ncr":
    return Ncr(setting, params)


class Ncr(TwoNetworks):
    """Pairs of a clean batch have the label 1 as far as they are surely clean, pairs of a noisy batch what both networks
    predict; the label decides the margin.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021. Details that the paper
    leaves open follow the authors' public code: the mean instead of the hardest violation in warm-up and per-sample loss, no
    noisy pairs in the first half of the epochs, a rate that decays from the end of the warm-up on, separate steps for clean
    and noisy batches. Unlike the code, the labels of a noisy batch are predicted after the step on the clean batch; see also
    ``TwoNetworks``.
    """

    name = "ncr"

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting, params)
        self.params = params
        self._margins: Tensor | None = None

    def mixture(self, network: DualEncoder, epoch: int) -> LossMixture:
        return fit_gaussian(self.pair_losses(network, epoch, self.params.margin))

    def prepare(self, batch: Batch) -> Batch:
        place, part = self.turn()
        if part == "labelled":
            teacher = self.teachers[place]
            assert teacher is not None
            clean = torch.from_numpy(teacher.probability[batch.pairs]).float()
            clean = clean.to(self.setting.device, non_blocking=True)
            labels = refined(clean, self._predicted(place, batch), self.params.variant)
        elif part == "unlabelled":
            labels = (self._predicted(0, batch) + self._predicted(1, batch)) / 2
        else:
            self._margins = None
            return batch
        self._margins = soft_margins(labels, self.params.margin, self.params.soft_margin)
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored = self.scored(images, texts, batch)
        if self._margins is None:
            return LossTerms(sample_losses(scored, self.params.margin), "sum")
        return LossTerms(soft_triplets(scored, self._margins, self.params.variant), "sum")

    def _predicted(self, place: int, batch: Batch) -> Tensor:
        return predicted(self.judged(self.networks[place], batch), self.params.margin)


def predicted(batch: Scored, margin: float) -> Float[Tensor, " pairs"]:
    """How well each pair fits under these scores, from 0 to 1, relative to the best pairs of its batch.

    ``p_i = clamp(m - (mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+) / 2, 0, m)`` divided by the mean of the
    ``B // 10 + 1`` largest of the batch, at most 1. Where no pair of the batch fits, every prediction is 0.
    """
    fits = (margin - sample_losses(batch, margin) / 2).clamp(0, margin)
    best = fits.topk(len(fits) // 10 + 1).values.mean()
    return torch.where(best > 0, (fits / best).clamp(0, 1), 0)


def refined(
    clean: Float[Tensor, " pairs"], prediction: Float[Tensor, " pairs"], variant: Variant
) -> Float[Tensor, " pairs"]:
    """Labels of pairs taken for clean: 1 and the network's prediction, weighted by the probability of being clean.

    The authors' ``code`` uses the prediction of the batch's first pair for all pairs.
    """
    predictions = prediction if variant == "paper" else prediction[:1]
    return clean + (1 - clean) * predictions
