"""Maths that several losses and schemes share: margin violations, matching probabilities, evidence.

Evidence is that of DECL (Qin et al., ACM MM 2022): similarities as evidence that image and text belong together.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.engine.batch import LossTerms, Scored

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
