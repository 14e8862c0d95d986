"""BiCro (CVPR 2023): the label of a noisy pair says whether its image and its text are equally far from clean pairs."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import LossMixture, fit_beta
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.peers import TwoNetworks, soft_margins, soft_triplets
from vse_pipe.train.scheme import Setting
from vse_pipe.train.schemes.options import BicroOptions as Params
from vse_pipe.train.schemes.options import Variant
from vse_pipe.train.scored import LossTerms, Scored, sample_losses
from vse_pipe.train.transport import directions

# The smallest distance, as in the authors' code; it divides.
_CLOSEST = 0.01

# Unit vectors of images and of their texts.
Sides = tuple[Tensor, Tensor]


def scheme(setting: Setting, params: Params) -> "Bicro":
    return Bicro(setting, params)


class Bicro(TwoNetworks):
    """The teacher's clean pairs are trained on with the label 1, its noisy pairs with a label from the clean pairs of the step
    before, the anchors, in the teacher's space; the label decides the margin.

    Source: Yang et al., BiCro, CVPR 2023, Eqs. 1 to 11 and Algorithm 1, known here from an account of the paper and from the
    authors' public code, which decides what the account leaves open: the share of the warm-up, the threshold, no noisy pairs
    in the first half of the epochs. So does it for the mean instead of the hardest violation in warm-up and per-sample loss,
    as in ``l2rm``. ``variant: code`` has the labels and margins of the code. Not as in the code: the mixture of two beta
    distributions is ``mixture.fit_beta``, the step on clean pairs comes first, and see ``TwoNetworks``.
    """

    name = "bicro"

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting, params)
        self.params = params
        self._margins: Tensor | None = None
        # The clean batch of the step before, and its anchors once they are known.
        self._clean: Batch | None = None
        self._anchors: Sides | None = None

    def mixture(self, network: DualEncoder, epoch: int) -> LossMixture:
        return fit_beta(self.pair_losses(network, epoch, self.params.margin, self.params.sample_loss))

    def prepare(self, batch: Batch) -> Batch:
        place, part = self.turn()
        if part == "warm_up":
            self._margins = None
            return batch
        labels = self._clean_labels(1 - place, batch) if part == "labelled" else self._noisy_labels(1 - place, batch)
        self._margins = soft_margins(labels, self.params.margin, "exponential")
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored, params = self.scored(images, texts, batch), self.params
        if self._margins is None:
            losses = sample_losses(scored, params.margin, params.sample_loss == "hardest")
            count = max(1, int(len(losses) * params.share))
            return LossTerms(losses.topk(count, largest=False).values, "sum")
        if params.variant == "paper":
            return LossTerms(soft_triplets(scored, self._margins, "paper"), "sum")
        turned = replace(scored, scores=scored.scores.T, same=scored.same.T)
        return LossTerms(soft_triplets(turned, self._margins, "code"), "sum")

    def _clean_labels(self, teacher: int, batch: Batch) -> Tensor:
        self._clean, self._anchors = batch, None
        if self.params.variant == "paper":
            return torch.ones(len(batch.pairs), device=self.setting.device)
        scored = self.judged(self.networks[teacher], batch)
        sides = _sides(scored)
        labels, chosen = clean_labels(sample_losses(scored, self.params.margin), sides, self.params.floor)
        self._anchors = sides[0][chosen], sides[1][chosen]
        return labels

    def _noisy_labels(self, teacher: int, batch: Batch) -> Tensor:
        if self._anchors is None:
            assert self._clean is not None
            self._anchors = _sides(self.judged(self.networks[teacher], self._clean))
        labels = consistency(_sides(self.judged(self.networks[teacher], batch)), self._anchors, self.params.variant)
        return _above(labels, self.params.floor)


def _sides(scored: Scored) -> Sides:
    assert scored.images is not None
    assert scored.texts is not None
    return directions(scored.images, scored.texts)


def consistency(pairs: Sides, anchors: Sides, variant: Variant) -> Float[Tensor, " pairs"]:
    """The label of each pair, from 0 to 1: the mean of two ratios, one at the anchor whose image is nearest to the pair's
    image, one at the anchor of the nearest text.

    ``paper`` (Eqs. 9 to 11): the distance on the side where the anchor is nearest, divided by the distance of the other
    sides, here at most 1. A pair whose image is an anchor's has 0 in that direction unless the texts are equal too.
    Distances are Euclidean and at least 0.01. ``code``: cosines, the smaller divided by the larger. The paper's words leave
    the distance and the bound open.
    """
    images, texts = (side @ anchor.T for side, anchor in zip(pairs, anchors, strict=True))
    if variant == "paper":
        images, texts = (-(2 - 2 * cosines).clamp_min(_CLOSEST**2).sqrt() for cosines in (images, texts))
    by_image, by_text = _ratio(images, texts), _ratio(texts, images)
    if variant == "paper":
        by_image, by_text = by_image.clamp_max(1), by_text.clamp_max(1)
    else:
        by_image, by_text = (torch.where(ratio < 1, ratio, 1 / ratio).nan_to_num(0) for ratio in (by_image, by_text))
    return ((by_image + by_text) / 2).clamp(0, 1)


def _ratio(near: Float[Tensor, "pairs anchors"], far: Float[Tensor, "pairs anchors"]) -> Float[Tensor, " pairs"]:
    """The largest entry of each row of ``near``, divided by the entry of ``far`` in the same place."""
    nearest = near.max(dim=1)
    return nearest.values / far.gather(1, nearest.indices[:, None])[:, 0]


def clean_labels(
    losses: Float[Tensor, " pairs"], pairs: Sides, floor: float
) -> tuple[Float[Tensor, " pairs"], Int[Tensor, " anchors"]]:
    """The labels of a clean batch in the authors' code, and its anchors, the ``B // 10 + 1`` pairs of smallest loss.

    Anchors have 1, the others ``(1 + consistency) / 2``. The code gives these labels to the wrong pairs: the j-th of the
    others, from the largest loss on, has the label of the j-th pair of the batch.
    """
    order = losses.argsort(descending=True)
    count = len(losses) // 10 + 1
    others, chosen = order[:-count], order[-count:]
    found = _above(0.5 + consistency(pairs, (pairs[0][chosen], pairs[1][chosen]), "code") / 2, floor)
    return torch.ones_like(found).scatter(0, others, found[: len(others)]), chosen


def _above(labels: Float[Tensor, " pairs"], floor: float) -> Float[Tensor, " pairs"]:
    """``labels``, with 0 for those of at most ``floor``."""
    return torch.where(labels > floor, labels, 0)
