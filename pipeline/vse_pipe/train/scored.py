"""The input of a loss (``Scored``), its result (``LossTerms``), and shared maths."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.matches import Matches


@dataclass(frozen=True)
class Scored:
    """A batch of B pairs; pair i is image i with text i.

    scores: rows are images, columns texts, positives on the diagonal; same: cells that are no
    negatives, which are the diagonal, under ``train.mask_same_image`` every text of the same image,
    and with ``matches`` all matches; owners: image id of each pair, on the CPU; images, texts: the
    vectors, or regions and words; weights: factors of the cells from a scheme, or None; matches:
    where a text can have several images, else None; mined: vectors of further images, each a
    negative of the text of pair ``mined_for`` only, on the CPU; targets: a scheme's trust in each
    pair, from 0 to 1, or None; passed: trained epochs, with the fraction of the present epoch.
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
        """``targets``; 1 without targets."""
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
        """owners: by default every pair has a different image.

        Raises InputError unless ``scores`` is square with at least two pairs, because a single pair
        has no negative.
        """
        if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
            raise InputError(f"a loss needs square scores of at least 2 pairs, got shape {tuple(scores.shape)}")
        if owners is None:
            owners = torch.arange(len(scores))
        same = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        if mask_same_image:
            numbers = sent(owners, scores.device)
            same = numbers[:, None] == numbers[None, :]
        if matches is not None:
            same = same | sent(matches.same, scores.device)
        return cls(scores, same, owners, images, texts, weights, matches, passed=passed)


@dataclass(frozen=True)
class LossTerms:
    """per_pair: (pairs,) loss of each positive pair; reduction: ``sum`` for the hinge losses (the
    authors sum over the batch), ``mean`` where the paper divides by B."""

    per_pair: Tensor
    reduction: Literal["sum", "mean"]

    def total(self) -> Tensor:
        """The scalar to minimise."""
        return self.per_pair.sum() if self.reduction == "sum" else self.per_pair.mean()


def first_row(numbers: Int[Tensor, " pairs"], count: int) -> Int[Tensor, " count"]:
    """The first pair of each number 0 ... count - 1."""
    pairs = torch.arange(len(numbers), device=numbers.device)
    return pairs.new_full((count,), len(numbers)).scatter_reduce(0, numbers, pairs, "amin")


# The authors of L2RM add this to the labels 1 and 0.
FLOOR = 1e-7


def violations(
    batch: Scored, margin: float | Tensor, image_margin: Tensor | None = None
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinges of every negative: ``[margin - S_ii + S_it]+`` of texts by rows, ``[margin - S_tt +
    S_it]+`` of images by columns. Cells that are no negatives are 0. margin: also of each cell;
    image_margin: of the images, if theirs is another."""
    positives, of_images = batch.scores.diagonal(), margin if image_margin is None else image_margin
    sides = margin - positives[:, None] + batch.scores, of_images - positives[None, :] + batch.scores
    texts, images = (side.clamp_min(0).masked_fill(batch.same, 0) for side in sides)
    return texts, images


def curriculum_count(batch: Scored, curriculum: float, fewest: int) -> int:
    """Number of negatives of a row and of a column that count. It falls linearly over the first
    ``curriculum`` epochs, from the whole batch to ``fewest``.

    Source: DECL (Qin et al., ACM MM 2022), whose hinge counts ``max(batch - eta step, 5)``. Epochs
    instead of steps fit data sets of any size.
    """
    remaining = max(1 - batch.passed / curriculum, 0.0) if curriculum else 0.0
    return max(fewest, round(fewest + remaining * (len(batch.scores) - 1 - fewest)))


def largest(
    texts: Float[Tensor, "pairs pairs"], images: Float[Tensor, "pairs pairs"], count: int
) -> Float[Tensor, " pairs"]:
    """The mean of the ``count`` largest violations of each row of ``texts`` plus that of each
    column of ``images``."""
    if count == 1:
        return texts.max(dim=1).values + images.max(dim=0).values
    count = min(count, len(texts) - 1)
    return (texts.topk(count, dim=1).values.sum(dim=1) + images.topk(count, dim=0).values.sum(dim=0)) / count


def sample_losses(batch: Scored, margin: float = 0.2, hardest: bool = False) -> Float[Tensor, " pairs"]:
    """``mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+`` for each pair i, over all B cells
    of a row and a column.

    Source: L2RM (Han et al., CVPR 2024) Eq. 4 as in the authors' code, whose mean counts masked
    cells as 0. hardest: the maximum instead of the mean, as in the paper's Eqs. 4 and 2. margin:
    0.2 in both.
    """
    texts, images = violations(batch, margin)
    if hardest:
        return largest(texts, images, 1)
    return texts.mean(dim=1) + images.mean(dim=0)


def log_chances(
    batch: Scored, tau: float | Float[Tensor, ""]
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """``log softmax(S / tau)`` over the texts of each image, and over the images of each text; both
    by rows.

    Cells that are neither negative nor diagonal are left out: their logarithm is -inf, their
    gradient 0.
    """
    logits = (batch.scores / tau).masked_fill(~open_cells(batch), -torch.inf)
    return logits.log_softmax(dim=1), logits.T.log_softmax(dim=1)


def own_chances(batch: Scored, tau: float) -> Float[Tensor, " pairs"]:
    """``p_ii``, the probability that each pair is matched, as the mean of both directions."""
    texts, images = log_chances(batch, tau)
    return (texts.diagonal().exp() + images.diagonal().exp()) / 2


def cross_entropy(batch: Scored, tau: float | Float[Tensor, ""]) -> LossTerms:
    """InfoNCE: ``-log p_ii`` of both directions, added."""
    texts, images = log_chances(batch, tau)
    return LossTerms(-texts.diagonal() - images.diagonal(), "mean")


def with_reverse(batch: Scored, tau: float) -> LossTerms:
    """Half of the sum of cross entropy and reverse cross entropy, each of both directions."""
    texts, images = log_chances(batch, tau)
    cross = -texts.diagonal() - images.diagonal()
    reverse = _reverse(texts) + _reverse(images)
    return LossTerms(0.5 * (cross + reverse), "mean")


def _reverse(log_chances: Float[Tensor, "pairs pairs"]) -> Float[Tensor, " pairs"]:
    """``-sum_t p_it log(delta_it + FLOOR)``. Labels are 0 outside of the diagonal, so two
    logarithms are enough."""
    positives = log_chances.diagonal().exp()
    diagonal = torch.eye(len(positives), dtype=torch.bool, device=positives.device)
    # A sum, because 1 - positives loses chances below 1e-7 in float32.
    negatives = log_chances.masked_fill(diagonal, -torch.inf).exp().sum(dim=1)
    return -positives * math.log1p(FLOOR) - negatives * math.log(FLOOR)


def open_cells(batch: Scored) -> Bool[Tensor, "pairs pairs"]:
    """The negatives and the diagonal: the classes of a row."""
    return ~batch.same | torch.eye(len(batch.same), dtype=torch.bool, device=batch.same.device)


def evidence(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """``e^(tanh(S) / tau)``, and 0 outside of ``open_cells``: evidence of a match (DECL, Qin et
    al., ACM MM 2022)."""
    return (batch.scores.tanh() / tau).exp().masked_fill(~open_cells(batch), 0)


def fits(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """Each row of ``e + e^T`` divided by its sum; the diagonal says how well a pair fits, from 0 to
    1."""
    cells = evidence(batch, tau)
    both = cells + cells.T
    return both / both.sum(dim=1, keepdim=True)
