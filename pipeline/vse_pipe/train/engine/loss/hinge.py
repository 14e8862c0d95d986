"""The margin violations that the ranking losses share."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.loss.terms import LossTerms


def violations(batch: Scored, margin: float) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinge values of every negative: texts for each image (by rows), images for each text (by columns).

    ``[margin - S_ii + S_it]+`` and ``[margin - S_tt + S_it]+``; cells that are no negatives are zero.
    """
    scores = batch.scores
    positives = scores.diagonal()
    texts = (margin - positives[:, None] + scores).clamp_min(0).masked_fill(batch.same, 0)
    images = (margin - positives[None, :] + scores).clamp_min(0).masked_fill(batch.same, 0)
    return texts, images


def counted(batch: Scored, curriculum: float, fewest: int) -> int:
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
    told = {"violations": ((texts > 0).sum() + (images > 0).sum()).detach()}
    return LossTerms(largest(texts, images, count), "sum", told)


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
