"""The loss of each batch without state: vsepp, HAL without memory bank, order embeddings, two-branch networks."""

from dataclasses import replace

import torch
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import PlainOptions as Params
from vse_pipe.train.scored import Scored


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting) if setting.pairs.trust is None else Trusting(setting)


class Trusting(Scheme):
    """The weights of the pairs are the targets of the loss."""

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        scored, trust = super().scored(images, texts, batch), self.setting.pairs.trust
        assert trust is not None
        return replace(scored, targets=sent(torch.from_numpy(trust[batch.pairs]), scored.scores.device))
