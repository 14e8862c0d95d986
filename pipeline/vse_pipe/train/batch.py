"""A batch as a loss sees it (``Scored``), what of it matches (``Matches``), and what a loss returns (``LossTerms``)."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Words


@dataclass(frozen=True)
class Matches:
    """The images and texts of a batch, each once, and what matches.

    images, texts: which of them each pair shows; positives: the cells that match, pairs of the batch or not; image_kin:
    images that a text shares, text_kin: texts that an image shares (Eqs. 3 and 4 of Wang et al., CVPR 2016), everything
    being its own kin.
    """

    images: Int[Tensor, " pairs"]
    texts: Int[Tensor, " pairs"]
    positives: Bool[Tensor, "images texts"]
    image_kin: Bool[Tensor, "images images"]
    text_kin: Bool[Tensor, "texts texts"]

    @classmethod
    def by_owner(cls, owners: Int[Tensor, " pairs"]) -> "Matches":
        """Every text is of one image; owners: that image, by its id."""
        ids, images = owners.unique(return_inverse=True)
        alone = torch.eye(len(ids), dtype=torch.bool, device=owners.device)
        texts = torch.arange(len(owners), device=owners.device)
        return cls(images, texts, ids[:, None] == owners[None, :], alone, owners[:, None] == owners[None, :])

    @property
    def same(self) -> Bool[Tensor, "pairs pairs"]:
        """Cells of the pairs' images and texts that match."""
        return self.positives[self.images][:, self.texts]


@dataclass(frozen=True)
class Scored:
    """A batch of B pairs, pair i being image i shown with text i.

    scores: rows are images, columns texts, positives on the diagonal; same: the cells that are no negatives: the
    diagonal, under ``train.mask_same_image`` every text of the same image, and with ``matches`` all that match; owners:
    the image that each pair shows, by its id; images, texts: the vectors, or regions and words; weights: factors that a
    scheme gives to the cells, None where it gives none; matches: where a text can have several images, else None;
    mined: vectors of further images, each a negative of the text of pair ``mined_for`` and of no other; targets: how far a
    scheme takes each pair for matched, from 0 to 1, None where it judges none; passed: epochs that have been trained, with
    the share of the one at hand.
    """

    scores: Float[Tensor, "pairs pairs"]
    same: Bool[Tensor, "pairs pairs"]
    owners: Int[Tensor, " pairs"]
    images: Float[Tensor, "pairs ..."] | None = None
    texts: Float[Tensor, "pairs dim"] | Words | None = None
    weights: Float[Tensor, "pairs pairs"] | None = None
    matches: Matches | None = None
    mined: Float[Tensor, "mined dim"] | None = None
    mined_for: Int[Tensor, " mined"] | None = None
    targets: Float[Tensor, " pairs"] | None = None
    passed: float = 0.0

    @property
    def trust(self) -> Float[Tensor, " pairs"]:
        """``targets``, and 1 where nobody judges."""
        return torch.ones_like(self.scores[0]) if self.targets is None else self.targets

    @classmethod
    def from_scores(
        cls,
        scores: Tensor,
        owners: Tensor | None = None,
        mask_same_image: bool = False,
        images: Tensor | None = None,
        texts: Tensor | Words | None = None,
        weights: Tensor | None = None,
        matches: Matches | None = None,
        passed: float = 0.0,
    ) -> "Scored":
        """owners: left out, every pair has an image of its own.

        Raises InputError unless ``scores`` is square with at least two pairs: a pair alone has no negative.
        """
        if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
            raise InputError(f"a loss needs square scores of at least 2 pairs, got shape {tuple(scores.shape)}")
        if owners is None:
            owners = torch.arange(len(scores), device=scores.device)
        same = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        if mask_same_image:
            same = owners[:, None] == owners[None, :]
        if matches is not None:
            same = same | matches.same
        return cls(scores, same, owners, images, texts, weights, matches, passed=passed)


@dataclass(frozen=True)
class LossTerms:
    """per_pair: (pairs,), the share of each positive pair; parts: named scalars for logs, detached.

    reduction: ``sum`` for the hinge losses (the authors sum over the batch), ``mean`` where the paper divides by B.
    """

    per_pair: Tensor
    reduction: Literal["sum", "mean"]
    parts: dict[str, Tensor] = field(default_factory=dict)

    def total(self) -> Tensor:
        """The scalar to minimise."""
        return self.per_pair.sum() if self.reduction == "sum" else self.per_pair.mean()


def first_row(numbers: Int[Tensor, " pairs"], count: int) -> Int[Tensor, " count"]:
    """The first pair that has each of the numbers 0 ... count - 1."""
    pairs = torch.arange(len(numbers), device=numbers.device)
    return pairs.new_full((count,), len(numbers)).scatter_reduce(0, numbers, pairs, "amin")


# Maths that several losses and schemes share: margin violations, matching probabilities, evidence.
#
# Evidence is that of DECL (Qin et al., ACM MM 2022): similarities as evidence that image and text belong together.

# What the authors of L2RM add to the labels 1 and 0.
FLOOR = 1e-7


def violations(batch: Scored, margin: float) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinge values of every negative: texts for each image (by rows), images for each text (by columns).

    ``[margin - S_ii + S_it]+`` and ``[margin - S_tt + S_it]+``; cells that are no negatives are zero.
    """
    scores = batch.scores
    positives = scores.diagonal()
    texts = (margin - positives[:, None] + scores).clamp_min(0).masked_fill(batch.same, 0)
    images = (margin - positives[None, :] + scores).clamp_min(0).masked_fill(batch.same, 0)
    return texts, images


def curriculum_count(batch: Scored, curriculum: float, fewest: int) -> int:
    """How many negatives of a row and of a column count: evenly fewer over the first ``curriculum`` epochs, from all of the
    batch to ``fewest``.

    Source: DECL (Qin et al., ACM MM 2022), whose hinge counts ``max(batch - eta step, 5)``; in epochs the same option fits
    data sets of any size.
    """
    left = max(1 - batch.passed / curriculum, 0.0) if curriculum else 0.0
    return max(fewest, round(fewest + left * (len(batch.scores) - 1 - fewest)))


def largest(
    texts: Float[Tensor, "pairs pairs"], images: Float[Tensor, "pairs pairs"], count: int
) -> Float[Tensor, " pairs"]:
    """The mean of the ``count`` largest violations of each row of ``texts``, and of each column of ``images``, added."""
    if count == 1:
        return texts.max(dim=1).values + images.max(dim=0).values
    count = min(count, len(texts) - 1)
    return (texts.topk(count, dim=1).values.sum(dim=1) + images.topk(count, dim=0).values.sum(dim=0)) / count


def hardest(batch: Scored, margin: float, count: int = 1) -> LossTerms:
    """Of every pair the mean of the ``count`` largest violations in each direction."""
    texts, images = violations(batch, margin)
    parts = {"violations": ((texts > 0).sum() + (images > 0).sum()).detach()}
    return LossTerms(largest(texts, images, count), "sum", parts)


def plateau(mean_loss: float, batch_size: int, margin: float) -> str | None:
    """What to tell the user when hardest negatives all cost the margin, as where all similarities are equal.

    Both directions of every pair then cost ``margin``. Users of vsepp take it for a bug.
    """
    value = 2 * batch_size * margin
    if abs(mean_loss - value) < 0.01 * value:
        advice = (
            "training may leave it by itself; if not, set the loss's curriculum to 2, lower train.lr, train.batch_size or the "
            "margin, or set train.precision to float32"
        )
        return f"the loss still sits at its plateau of {value:.1f}; {advice}"
    return None


def sample_losses(batch: Scored, margin: float = 0.2, hardest: bool = False) -> Float[Tensor, " pairs"]:
    """``mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+`` for each pair i, over all B cells of a row
    and a column.

    Mismatched pairs are told from matched ones by it; schemes that split the training pairs use it, and no loss does.

    Source: L2RM (Han et al., CVPR 2024) Eq. 4 as the authors' code has it: the mean counts the diagonal as 0,
    and so every masked cell. hardest: the maximum of each instead, which is the paper's Eq. 4 by way of its
    Eq. 2. The value depends on which pairs share a batch. margin: 0.2 in both.
    """
    texts, images = violations(batch, margin)
    if hardest:
        return texts.max(dim=1).values + images.max(dim=0).values
    return texts.mean(dim=1) + images.mean(dim=0)


def log_chances(
    batch: Scored, tau: float | Float[Tensor, ""]
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """``log softmax(S / tau)``: of the texts for each image, by rows, and of the images for each text, by
    rows again.

    Cells that are no negatives take no part, the positives apart: their logarithm is -inf, their gradient 0.
    """
    diagonal = torch.eye(len(batch.scores), dtype=torch.bool, device=batch.scores.device)
    logits = (batch.scores / tau).masked_fill(batch.same & ~diagonal, -torch.inf)
    return logits.log_softmax(dim=1), logits.T.log_softmax(dim=1)


def own_chances(batch: Scored, tau: float) -> Float[Tensor, " pairs"]:
    """``p_ii``, how probably each pair is matched, the mean of both directions."""
    texts, images = log_chances(batch, tau)
    return (texts.diagonal().exp() + images.diagonal().exp()) / 2


def cross_entropy(batch: Scored, tau: float | Float[Tensor, ""]) -> LossTerms:
    """InfoNCE: ``-log p_ii`` of both directions, added."""
    texts, images = log_chances(batch, tau)
    to_texts, to_images = -texts.diagonal(), -images.diagonal()
    parts = {"texts": to_texts.mean().detach(), "images": to_images.mean().detach()}
    return LossTerms(to_texts + to_images, "mean", parts)


def with_reverse(batch: Scored, tau: float, floor: float = FLOOR) -> LossTerms:
    """Half of the sum of cross entropy and reverse cross entropy, each of both directions."""
    texts, images = log_chances(batch, tau)
    cross = -texts.diagonal() - images.diagonal()
    reverse = _reverse(texts, floor) + _reverse(images, floor)
    parts = {"ce": cross.mean().detach(), "rce": reverse.mean().detach()}
    return LossTerms(0.5 * (cross + reverse), "mean", parts)


def _reverse(log_chances: Float[Tensor, "pairs pairs"], floor: float) -> Float[Tensor, " pairs"]:
    """``-sum_t p_it log(delta_it + floor)``: all labels but the own are 0, so two logarithms are enough."""
    own = log_chances.diagonal().exp()
    diagonal = torch.eye(len(own), dtype=torch.bool, device=own.device)
    # Summed, not 1 - own: in float32 that would lose chances below 1e-7.
    others = log_chances.masked_fill(diagonal, -torch.inf).exp().sum(dim=1)
    return -own * math.log1p(floor) - others * math.log(floor)


def open_cells(batch: Scored) -> Bool[Tensor, "pairs pairs"]:
    """The cells that are negatives, and the diagonal: the classes of a row."""
    return ~batch.same | torch.eye(len(batch.same), dtype=torch.bool, device=batch.same.device)


def evidence(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """``e^(tanh(S) / tau)``, and 0 where a cell is not one of ``open_cells``."""
    return (batch.scores.tanh() / tau).exp().masked_fill(~open_cells(batch), 0)


def fits(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """Each row of ``e + e^T`` divided by its sum: on the diagonal how well a pair fits, from 0 to 1."""
    cells = evidence(batch, tau)
    both = cells + cells.T
    return both / both.sum(dim=1, keepdim=True)
