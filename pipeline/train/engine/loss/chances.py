"""The logarithms of the matching probabilities within a batch."""

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.train.engine.loss.scored import Scored


def log_chances(
    batch: Scored, tau: float
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """``log softmax(S / tau)``: of the texts for each image, by rows, and of the images for each text, by
    rows again.

    Cells that are no negatives take no part, the positives apart: their logarithm is -inf, their gradient 0.
    """
    diagonal = torch.eye(len(batch.scores), dtype=torch.bool, device=batch.scores.device)
    logits = (batch.scores / tau).masked_fill(batch.same & ~diagonal, -torch.inf)
    return logits.log_softmax(dim=1), logits.T.log_softmax(dim=1)
