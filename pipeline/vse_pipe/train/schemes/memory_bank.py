"""HAL's memory bank: hubs are sought in a share of the training set, not only in the batch (HAL, AAAI 2020, Eq. 6)."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model
from vse_pipe.train.batch import Scored
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import MemoryBankOptions as Params


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
        images = model.images(setting.model, source, pairs.rows[chosen], device)
        texts = model.captions(setting.model, pairs.texts, pairs.places[chosen], device)
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


@torch.no_grad()
def weights(
    scores: Float[Tensor, "pairs pairs"],
    to_bank_texts: Float[Tensor, "pairs bank"],
    to_bank_images: Float[Tensor, "bank pairs"],
    excluded: Bool[Tensor, "pairs bank"],
    params: Params,
) -> Float[Tensor, "pairs pairs"]:
    """W of Eq. 6, in [0, 1], without gradient: large where image or text has close neighbours in the bank.

    scores: the batch's own, rows images. to_bank_texts: its images against the bank's texts; to_bank_images:
    the bank's images against its texts. excluded: bank entries that are no neighbours of a pair (see
    ``left_out``).

    ``W_ii = n / (n + e^(a(S_ii - eps1)))``, n the sum of ``e^(a(s - eps2))`` over the k nearest bank texts of
    image i and the k nearest bank images of text i; ``W_it = N / (N + e^(b(S_ii - eps1)) + e^(b(S_tt -
    eps1)))``, N the same sum with b over the bank texts of image i and the bank images of text t. The paper
    prints ``M_T`` for both; K2 must be bank images. A pair with fewer than k neighbours left uses those; with
    none, its sum is 0.

    ``code``: eps1 also in n; ``e^(b s - eps2)`` and ``e^(b S)`` in W_it, where Python's precedence leaves the
    margin outside of the product; k at most the batch size. As in the authors' code, W passes no gradient,
    which Eq. 8 also takes for granted. Sums stay logarithms: a large alpha or beta does not overflow.

    Raises InputError when the bank is empty.
    """
    if to_bank_texts.shape[1] == 0:
        raise InputError("the memory bank is empty: raise its rate, or train on more pairs")
    code = params.variant == "code"
    k = min(params.k, len(scores)) if code else params.k
    texts = _nearest(to_bank_texts.masked_fill(excluded, -torch.inf), k)
    images = _nearest(to_bank_images.T.masked_fill(excluded, -torch.inf), k)
    positives = scores.diagonal()

    margin = params.eps1 if code else params.eps2
    near = torch.cat([texts, images], dim=1)
    own = (params.alpha * (near - margin)).logsumexp(dim=1) - params.alpha * (positives - params.eps1)

    bank, positive = (params.eps2, 0.0) if code else (params.beta * params.eps2, params.beta * params.eps1)
    of_image = (params.beta * texts - bank).logsumexp(dim=1)
    of_text = (params.beta * images - bank).logsumexp(dim=1)
    pulled = params.beta * positives - positive
    crossed = torch.logaddexp(of_image[:, None], of_text[None, :])
    held = torch.logaddexp(pulled[:, None], pulled[None, :])
    return (crossed - held).sigmoid().diagonal_scatter(own.sigmoid())


def left_out(
    batch: Int[Tensor, " pairs"], bank: Int[Tensor, " bank"], whole_batch: bool = True
) -> Bool[Tensor, "pairs bank"]:
    """Bank entries that pair i must not meet, by id: of captions as the authors have it, or of images.

    whole_batch: every entry that any pair of the batch has, as in the authors' code; False: only the pair's
    own, the paper's ``M \\ {t}``. By captions the positive image can still be met under another of its
    captions; by images not.
    """
    same = batch[:, None] == bank[None, :]
    return same.any(dim=0).expand_as(same) if whole_batch else same


def _nearest(near: Float[Tensor, "pairs bank"], k: int) -> Float[Tensor, "pairs k"]:
    return near.topk(min(k, near.shape[1]), dim=1, sorted=False).values
