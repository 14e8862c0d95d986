"""A share of the training pairs, encoded anew at the start of each epoch."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vse_pipe.core.console import say
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine import encode
from vse_pipe.train.engine.data import Batch
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.memory_bank import Params
from vse_pipe.train.schemes.memory_bank.weights import left_out, weights


def scheme(setting: Setting, params: Params) -> "MemoryBank":
    return MemoryBank(setting, params)


class MemoryBank(Scheme):
    """Rebuilt at the start of every epoch but the first from the model as it is then, and frozen until the next.

    As in the authors' code whole batches of a shuffled epoch are kept, each with probability ``share``, encoded without
    dropout and without gradients. When none is drawn one is kept: the authors' loss has no case for an empty bank. The
    first epoch is the loss without a bank.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        self.images: Tensor | None = None

    def start(self, epoch: int) -> None:
        self.images = None
        if epoch == 0:
            return
        setting, pairs = self.setting, self.setting.pairs
        chosen = _kept(len(pairs), setting.train.batch_size, self.params.share, generator(setting.seed, "bank", epoch))
        device = setting.device
        source = pairs.source(setting.model.tests_on_pixels)
        images = encode.images(setting.model, source, pairs.rows[chosen], device)
        texts = encode.captions(setting.model, pairs.texts, pairs.places[chosen], device)
        assert isinstance(texts, Tensor)
        self.images, self.texts = images.to(device), texts.to(device)
        self.chosen, self.pairs = chosen, torch.from_numpy(chosen).to(device)
        self.owners = torch.from_numpy(pairs.owners[chosen]).to(device)
        megabytes = (images.nbytes + texts.nbytes) / 2**20
        # Both directions as float32, once more with the mask, and the mask itself.
        scores = len(chosen) * min(setting.train.batch_size, len(pairs)) * (2 * 4 + 2 * 4 + 1) / 2**20
        say(f"memory bank: {len(chosen)} pairs, {megabytes:.1f} MiB, and {scores:.1f} MiB for a batch's scores with it")

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        scored = super().scored(images, texts, batch)
        if self.images is None:
            return scored
        with torch.no_grad():
            factors = weights(
                scored.scores.detach(),
                self.setting.model.score(images, self.texts),
                self.setting.model.score(self.images, texts),
                self._left_out(batch),
                self.params,
            )
        return replace(scored, weights=factors)

    def _left_out(self, batch: Batch) -> Tensor:
        """(pairs, bank): entries that are no neighbours of a pair. Where texts that read alike are one, a caption is its text, and
        an image's are all that belong to it."""
        known, device = self.setting.pairs.incidence, self.pairs.device
        captions = torch.arange(len(self.setting.pairs)) if known is None else torch.from_numpy(known.texts)
        inside = left_out(captions[batch.pairs].to(device), captions[self.chosen].to(device))
        if self.params.exclude == "caption":
            return inside
        if known is None:
            return inside | left_out(batch.owners.to(device), self.owners, whole_batch=False)
        own = known.belong(batch.pairs, self.chosen) | known.belong(self.chosen, batch.pairs).T
        return inside | torch.from_numpy(own).to(device)


def _kept(pairs: int, batch_size: int, share: float, rng: np.random.Generator) -> np.ndarray:
    order = rng.permutation(pairs)
    batch_size = min(batch_size, pairs)
    batches = -(-pairs // batch_size)
    kept = rng.random(batches) < share
    if not kept.any():
        kept[rng.integers(batches)] = True
    return order[np.repeat(kept, batch_size)[:pairs]]
