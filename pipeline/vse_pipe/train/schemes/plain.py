"""The loss of each batch without state: vsepp, HAL without memory bank, order embeddings,
two-branch networks."""

from dataclasses import replace

import torch
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme
from vse_pipe.train.scored import Scored


class Plain(Scheme):
    """The weights of the pairs, if there are any, are the targets of the loss."""

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        scored, trust = super().scored(images, texts, batch), self.setting.pairs.trust
        if trust is None:
            return scored
        return replace(scored, targets=sent(torch.from_numpy(trust[batch.pairs]), scored.scores.device))


scheme = Plain
