"""The margin violations that the ranking losses share."""

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.train.losses._terms import require_negatives


def violations(
    scores: Float[Tensor, "pairs pairs"], margin: float
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """Hinge values of every negative: texts for each image (by rows), images for each text (by columns).

    ``[margin - S_ii + S_it]+`` and ``[margin - S_tt + S_it]+``; the diagonal is zero. Raises InputError on a batch of one.
    """
    require_negatives(scores)
    positives = scores.diagonal()
    same = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    texts = (margin - positives[:, None] + scores).clamp_min(0).masked_fill(same, 0)
    images = (margin - positives[None, :] + scores).clamp_min(0).masked_fill(same, 0)
    return texts, images
