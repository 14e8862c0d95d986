"""HAL's memory bank: hubs are measured on a share of the training set, not only in the batch (HAL,
AAAI 2020, Eq. 6)."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.core.errors import UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import MemoryBankOptions as Params
from vse_pipe.train.scored import Scored


class MemoryBank(Scheme):
    """The bank is rebuilt with the present model at the start of every epoch from ``begins`` on;
    earlier ones have none.

    As in the authors' code the bank consists of complete batches of a shuffled epoch, each drawn
    with probability ``share`` and encoded without dropout and gradients. At least one batch is
    drawn, because the authors' loss does not define an empty bank.
    """

    images: Tensor | None = None

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        if setting.train.batch_size >= len(setting.pairs):
            raise UsageError(
                f"scheme 'memory_bank': a batch of {setting.train.batch_size} holds all {len(setting.pairs)} training "
                "pairs and the bank; lower train.batch_size"
            )

    def start(self, epoch: int) -> None:
        self.images = None
        if epoch < self.params.begins:
            return
        setting, pairs, device = self.setting, self.setting.pairs, self.setting.device
        rng = generator(setting.run.seed, "bank", epoch)
        chosen = _sampled(len(pairs), setting.train.batch_size, self.params.share, rng)
        source = pairs.source(setting.model.tests_on_pixels)
        images = model.images(setting.model, source, pairs.rows[chosen], device)
        texts = model.captions(setting.model, pairs.texts, pairs.places[chosen], device)
        assert isinstance(texts, Tensor)
        self.images, self.texts = images.to(device), texts.to(device)
        self.chosen = chosen

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        scored, score = super().scored(images, texts, batch), self.setting.model.score
        if self.images is None:
            return scored
        with torch.no_grad():
            banks = score(images, self.texts), score(self.images, texts)
            excluded = sent(torch.from_numpy(self._left_out(batch.pairs)), images.device)
            factors = weights(scored.scores.detach(), *banks, excluded, self.params)
        return replace(scored, weights=factors)

    def _left_out(self, pairs: np.ndarray) -> np.ndarray:
        """(bank,): entries with a caption of the batch, which are no neighbours, as in the authors'
        code. Where texts with equal words are one text, texts replace captions."""
        incidence = self.setting.pairs.incidence
        sides = (self.chosen, pairs) if incidence is None else (incidence.texts[self.chosen], incidence.texts[pairs])
        return np.isin(*sides)


def _sampled(pairs: int, batch_size: int, share: float, rng: np.random.Generator) -> np.ndarray:
    order = rng.permutation(pairs)
    batches = -(-pairs // batch_size)
    chosen = rng.random(batches) < share
    if not chosen.any():
        chosen[rng.integers(batches)] = True
    return order[np.repeat(chosen, batch_size)[:pairs]]


@torch.no_grad()
def weights(
    scores: Float[Tensor, "pairs pairs"],
    to_bank_texts: Float[Tensor, "pairs bank"],
    to_bank_images: Float[Tensor, "bank pairs"],
    excluded: Bool[Tensor, " bank"],
    params: Params,
) -> Float[Tensor, "pairs pairs"]:
    """W of Eq. 6, in [0, 1], without gradient: large where image or text has close neighbours in
    the bank.

    scores: within the batch, rows are images; to_bank_texts: the batch's images against the bank's
    texts; to_bank_images: the bank's images against the batch's texts; excluded: bank entries that
    are no neighbours.

    ``W_ii = n / (n + e^(a(S_ii - eps1)))``, n the sum of ``e^(a(s - eps2))`` over the k nearest
    bank texts of image i and the k nearest bank images of text i; ``W_it = N / (N + e^(b(S_ii -
    eps1)) + e^(b(S_tt - eps1)))``, N the same sum with b over the bank texts of image i and the
    bank images of text t. The paper prints ``M_T`` for both; K2 must be bank images. A pair with
    fewer than k neighbours uses all of them; without any, its sum is 0.

    ``code``: eps1 also in n; ``e^(b s - eps2)`` and ``e^(b S)`` in W_it, where Python's precedence
    leaves the margin outside of the product; k at most the batch size. Sums stay logarithms, so a
    large alpha or beta does not overflow.
    """
    code = params.variant == "code"
    k = min(params.k, len(scores)) if code else params.k
    texts = _nearest(to_bank_texts.masked_fill(excluded, -torch.inf), k)
    images = _nearest(to_bank_images.T.masked_fill(excluded, -torch.inf), k)
    positives = scores.diagonal()
    near = params.alpha * (torch.cat([texts, images], dim=1) - (params.eps1 if code else params.eps2))
    positive_logits = near.logsumexp(dim=1) - params.alpha * (positives - params.eps1)
    bank, positive = params.beta * params.eps2, params.beta * params.eps1
    if code:
        bank, positive = params.eps2, 0.0
    image_sums, text_sums = ((params.beta * side - bank).logsumexp(dim=1) for side in (texts, images))
    pulled = params.beta * positives - positive
    crossed = torch.logaddexp(image_sums[:, None], text_sums[None, :])
    sums = torch.logaddexp(pulled[:, None], pulled[None, :])
    return (crossed - sums).sigmoid().diagonal_scatter(positive_logits.sigmoid())


def _nearest(near: Float[Tensor, "pairs bank"], k: int) -> Float[Tensor, "pairs k"]:
    return near.topk(min(k, near.shape[1]), dim=1, sorted=False).values


scheme = MemoryBank
