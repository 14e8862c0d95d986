"""The margin violations that the ranking losses share."""

from jaxtyping import Float
from torch import Tensor

from pipeline.train.losses._scored import Scored


def violations(
    batch: Scored, margin: float
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinge values of every negative: texts for each image (by rows), images for each text (by columns).

    ``[margin - S_ii + S_it]+`` and ``[margin - S_tt + S_it]+``; cells that are no negatives are zero.
    """
    scores = batch.scores
    positives = scores.diagonal()
    texts = (margin - positives[:, None] + scores).clamp_min(0).masked_fill(batch.same, 0)
    images = (margin - positives[None, :] + scores).clamp_min(0).masked_fill(batch.same, 0)
    return texts, images
