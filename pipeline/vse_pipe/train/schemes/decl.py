"""DECL (ACM MM 2022): pairs of little evidence count as mismatched, and the hinge counts ever fewer
negatives."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import fit_gaussian, report_trust
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms, fits


class Decl(Scheme):
    """After a warm-up with all pairs as matched, each epoch computes the fit of each pair and takes
    some pairs for mismatched. These have no label in the evidential loss and no hinge.

    Source: Qin et al., Deep evidential learning with noisy correspondence for cross-modal
    retrieval, ACM MM 2022. As in the authors' public code, the rate decays from the end of the
    warm-up on and at least 5 negatives count. Unlike the code, epochs of the warm-up can be the
    best, smaller batches are used, and a mixture on the fits separates the pairs, as NCR does on
    losses: in a batch of 128 another text fits better than that of many matched pairs.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.steps = 0
        self.begins_after(self.params.warm_up)
        self.matched = np.ones(len(setting.pairs), dtype=bool)

    def start(self, epoch: int) -> None:
        if epoch < self.params.warm_up:
            return
        tau, threshold = self.setting.run.loss.params.tau, self.params.threshold
        trust = self.pair_values(self.setting.model, epoch, lambda batch: fits(batch, tau).diagonal())
        mixture = fit_gaussian(-trust)  # its first component is that of the lower mean
        self.matched = mixture.posterior > threshold
        report_trust(f"decl, epoch {epoch + 1}", mixture, threshold, self.setting.pairs.mismatched)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        self.steps += 1
        count = int(self.setting.train.batch_size - self.params.eta * self.steps)
        scored = self.scored(images, texts, batch)
        targets = torch.from_numpy(self.matched[batch.pairs]).to(scored.scores, non_blocking=True)
        hardest = max(count, self.setting.run.loss.params.hardest)
        return self.loss(replace(scored, targets=targets), hardest=hardest)

    def state(self) -> dict[str, Tensor]:
        return {"step": torch.tensor([self.steps])}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.steps = int(state["step"])


scheme = Decl
