"""The margin violations that the ranking losses share."""

from jaxtyping import Float
from torch import Tensor

from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms


def violations(batch: Scored, margin: float) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinge values of every negative: texts for each image (by rows), images for each text (by columns).

    ``[margin - S_ii + S_it]+`` and ``[margin - S_tt + S_it]+``; cells that are no negatives are zero.
    """
    scores = batch.scores
    positives = scores.diagonal()
    texts = (margin - positives[:, None] + scores).clamp_min(0).masked_fill(batch.same, 0)
    images = (margin - positives[None, :] + scores).clamp_min(0).masked_fill(batch.same, 0)
    return texts, images


def hardest(batch: Scored, margin: float) -> LossTerms:
    """Of every pair the largest violation in each direction."""
    texts, images = violations(batch, margin)
    per_pair = texts.max(dim=1).values + images.max(dim=0).values
    return LossTerms(per_pair, "sum", {"violations": ((texts > 0).sum() + (images > 0).sum()).detach()})


def plateau(mean_loss: float, batch_size: int, margin: float) -> str | None:
    """What to tell the user when hardest negatives all cost the margin, as where all similarities are equal.

    Both directions of every pair then cost ``margin``. Users of vsepp take it for a bug.
    """
    value = 2 * batch_size * margin
    if abs(mean_loss - value) < 0.01 * value:
        advice = "train longer, or lower train.lr or train.batch_size"
        return f"the loss still sits at its plateau of {value:.1f}; {advice}"
    return None
