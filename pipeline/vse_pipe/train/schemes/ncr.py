"""NCR (NeurIPS 2021): each of two networks is trained on the trust of the other in every pair."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import fit_gaussian
from vse_pipe.train.peers import Part, TwoNetworks
from vse_pipe.train.scored import LossTerms, Scored, sample_losses


class Ncr(TwoNetworks):
    """Pairs of a clean batch have the label 1 as far as they are surely clean, pairs of a noisy
    batch what both networks predict; the label decides the margin.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021.
    The authors' public code decides what the paper leaves open: the mean instead of the hardest
    violation in warm-up and per-sample loss, no noisy pairs in the first half of the epochs, a rate
    that decays from the end of the warm-up on, separate steps for clean and noisy batches. Unlike
    the code, the labels of a noisy batch are predicted after the step on the clean batch.
    """

    mixture = staticmethod(fit_gaussian)

    def labels(self, place: int, part: Part, batch: Batch) -> Tensor:
        if part == "unlabelled":
            return (self._predicted(0, batch) + self._predicted(1, batch)) / 2
        teacher = self.teachers[place]
        assert teacher is not None
        clean = sent(torch.from_numpy(teacher.probability[batch.pairs]).float(), self.setting.device)
        return clean + (1 - clean) * self._predicted(place, batch)

    def warm_up_terms(self, scored: Scored) -> LossTerms:
        return LossTerms(sample_losses(scored, self.params.margin), "sum")

    def _predicted(self, place: int, batch: Batch) -> Tensor:
        return predicted(self.judged(self.networks[place], batch), self.params.margin)


def predicted(batch: Scored, margin: float) -> Float[Tensor, " pairs"]:
    """How well each pair fits under these scores, from 0 to 1, relative to the best pairs of its
    batch.

    ``p_i = clamp(m - (mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+) / 2, 0, m)`` divided
    by the mean of the ``B // 10 + 1`` largest of the batch, at most 1. Where no pair of the batch
    fits, every prediction is 0.
    """
    fits = (margin - sample_losses(batch, margin) / 2).clamp(0, margin)
    best = fits.topk(len(fits) // 10 + 1).values.mean()
    return torch.where(best > 0, (fits / best).clamp(0, 1), 0)


scheme = Ncr
