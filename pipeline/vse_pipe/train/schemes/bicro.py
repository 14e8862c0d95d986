"""BiCro (CVPR 2023): the label of a noisy pair says whether its image and its text are equally far
from clean pairs."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import fit_beta
from vse_pipe.train.peers import Part, TwoNetworks, soft_triplets
from vse_pipe.train.schemes.options import Variant
from vse_pipe.train.scored import LossTerms, Scored, sample_losses
from vse_pipe.train.transport import directions

# The smallest distance, as in the authors' code; it divides.
_CLOSEST = 0.01

# Unit vectors of images and of their texts.
Sides = tuple[Tensor, Tensor]


class Bicro(TwoNetworks):
    """The teacher's clean pairs are trained on with the label 1, its noisy pairs with a label from
    the clean pairs of the step before, the anchors, in the teacher's space; the label decides the
    margin.

    Source: Yang et al., BiCro, CVPR 2023, Eqs. 1 to 11 and Algorithm 1, known here from an account
    of the paper and from the authors' public code, which decides what the account leaves open: the
    share of the warm-up, the threshold, no noisy pairs in the first half of the epochs, the mean
    instead of the hardest violation. ``variant: code`` has the labels and margins of the code.
    Unlike the code, the mixture is ``mixture.fit_beta``, and the step on clean pairs comes first.
    """

    mixture = staticmethod(fit_beta)
    # The clean batch of the step before, and its anchors once they are known.
    _clean: Batch
    _anchors: Sides | None = None

    def labels(self, place: int, part: Part, batch: Batch) -> Tensor:
        teacher, params = self.networks[1 - place], self.params
        if part == "unlabelled":
            if self._anchors is None:
                self._anchors = _sides(self.judged(teacher, self._clean))
            sides = _sides(self.judged(teacher, batch))
            labels = consistency(sides, self._anchors, params.variant)
            return labels.masked_fill(labels <= params.floor, 0)
        self._clean, self._anchors = batch, None
        if params.variant == "paper":
            return torch.ones(len(batch.pairs), device=self.setting.device)
        scored = self.judged(teacher, batch)
        images, texts = _sides(scored)
        losses = sample_losses(scored, params.margin)
        labels, chosen = clean_labels(losses, (images, texts), params.floor)
        self._anchors = images[chosen], texts[chosen]
        return labels

    def warm_up_terms(self, scored: Scored) -> LossTerms:
        losses = sample_losses(scored, self.params.margin)
        count = max(1, int(len(losses) * self.params.share))
        return LossTerms(losses.topk(count, largest=False).values, "sum")

    def soft_terms(self, scored: Scored, margins: Tensor) -> LossTerms:
        if self.params.variant == "paper":
            return super().soft_terms(scored, margins)
        scored = replace(scored, scores=scored.scores.T, same=scored.same.T)
        return LossTerms(soft_triplets(scored, margins, is_code=True), "sum")


def _sides(scored: Scored) -> Sides:
    assert scored.images is not None
    assert scored.texts is not None
    return directions(scored.images, scored.texts)


def consistency(pairs: Sides, anchors: Sides, variant: Variant) -> Float[Tensor, " pairs"]:
    """The label of each pair, from 0 to 1: the mean of two ratios, one at the anchor whose image is
    nearest to the pair's image, one at the anchor of the nearest text.

    ``paper`` (Eqs. 9 to 11): the distance on the side where the anchor is nearest, divided by the
    distance of the other sides, here at most 1. Distances are Euclidean and at least 0.01; the
    paper's words leave the distance and the bound open. ``code``: cosines, the smaller divided by
    the larger.
    """
    images, texts = (side @ anchor.T for side, anchor in zip(pairs, anchors, strict=True))
    if variant == "paper":
        images, texts = (-(2 - 2 * cosines).clamp_min(_CLOSEST**2).sqrt() for cosines in (images, texts))
    ratios = []
    for near, far in ((images, texts), (texts, images)):
        nearest = near.max(dim=1)
        ratio = nearest.values / far.gather(1, nearest.indices[:, None])[:, 0]
        if variant == "code":
            ratio = torch.where(ratio < 1, ratio, 1 / ratio).nan_to_num(0)
        ratios.append(ratio.clamp_max(1))
    return ((ratios[0] + ratios[1]) / 2).clamp(0, 1)


def clean_labels(
    losses: Float[Tensor, " pairs"], pairs: Sides, floor: float
) -> tuple[Float[Tensor, " pairs"], Int[Tensor, " anchors"]]:
    """The labels of a clean batch in the authors' code, and its anchors, the ``B // 10 + 1`` pairs
    of smallest loss.

    Anchors have 1, the others ``(1 + consistency) / 2``. The code gives these labels to the wrong
    pairs: the j-th of the others, from the largest loss on, has the label of the j-th pair of the
    batch.
    """
    order = losses.argsort(descending=True)
    count = len(losses) // 10 + 1
    rest, chosen = order[:-count], order[-count:]
    ratios = consistency(pairs, (pairs[0][chosen], pairs[1][chosen]), "code")
    labels = 0.5 + ratios / 2
    labels = labels.masked_fill(labels <= floor, 0)
    return torch.ones_like(labels).scatter(0, rest, labels[: len(rest)]), chosen


scheme = Bicro
