"""Epochs under the run's loss, then epochs in which phrases also learn from regions that they mistook for theirs."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.data import Batch, image_inputs
from vse_pipe.train.engine.loss.terms import LossTerms
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.hard_negatives import Params
from vse_pipe.train.schemes.hard_negatives.mining import Mined, mine


def scheme(setting: Setting, params: Params) -> "HardNegatives":
    """Raises UsageError for a batch that is encoded in parts or read from pixels: mined regions stand in none."""
    if setting.train.chunk:
        raise UsageError("train.chunk must be 0 under scheme 'hard_negatives': mined regions belong to the whole batch")
    if setting.pairs.pictures is not None:
        raise UsageError("scheme 'hard_negatives' reads stored features; take image: two_branch or linear")
    return HardNegatives(setting, params)


class HardNegatives(Scheme):
    """Before epoch ``after`` regions are mined once under the model as it is. From then on lambda2 = lambda3 = 0, and every
    phrase of a batch brings regions mined for it, which are negatives of it and of no other.

    Source: Wang et al., CVPR 2016, section 3.3 ("using only the bi-directional ranking constraints"), five epochs after 28.
    The paper does not give their rate: the schedule goes on. The best epoch is sought from ``after`` on: validation ranks
    phrases and true regions, and does not see what is learnt about all others.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        assert setting.loss_with is not None
        self.params, self.mined = params, Mined(np.empty(0, np.int32), np.empty(0, np.int64))
        self._epoch = self._step = 0
        self._mined_for = torch.empty(0, dtype=torch.int64)
        self._across = setting.loss_with(lambda2=0.0, lambda3=0.0)
        if params.after < setting.train.epochs:
            self.selects_from = params.after
        else:
            warn(
                f"hard_negatives: {params.after} epochs before the mining leave none of train.epochs {setting.train.epochs}"
            )

    def start(self, epoch: int) -> None:
        self._epoch, self._step = epoch, 0
        if epoch != self.params.after:
            return
        setting, params = self.setting, self.params
        assert setting.regions is not None
        rng = generator(setting.seed, "mining")
        given = setting.model, setting.pairs, setting.regions, params.most, params.iou
        self.mined = mine(*given, setting.device, rng)
        say(f"hard negatives: {len(self.mined.rows)} regions for {len(np.unique(self.mined.texts))} phrases")

    def prepare(self, batch: Batch) -> Batch:
        if self._epoch < self.params.after:
            return batch
        pairs = self.setting.pairs
        assert pairs.incidence is not None
        texts, first = np.unique(pairs.incidence.texts[batch.pairs], return_index=True)
        rng = generator(self.setting.seed, "mined", self._epoch, self._step)
        self._step += 1
        drawn = self.mined.draw(texts, self.params.each, rng)
        self._mined_for = torch.from_numpy(first[np.searchsorted(texts, self.mined.texts[drawn])])
        return replace(batch, features=torch.cat([batch.features, image_inputs(pairs.array, self.mined.rows[drawn])]))

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        if self._epoch < self.params.after:
            return super().terms(images, texts, batch)
        own, mined = images.tensor_split([len(batch.pairs)])
        scored = self.scored(own, texts, batch)
        return self._across(replace(scored, mined=mined, mined_for=self._mined_for.to(mined.device)))

    def state(self) -> dict[str, Tensor]:
        if not len(self.mined.rows):
            return {}
        return {"texts": torch.from_numpy(self.mined.texts), "rows": torch.from_numpy(self.mined.rows)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        if state:
            self.mined = Mined(state["texts"].numpy(), state["rows"].numpy())
