"""The loss of each pair by which mismatched pairs are told from matched ones (L2RM, CVPR 2024).

No loss of this family uses it: it is for schemes that split the training pairs.
"""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.hinge import violations
from vse_pipe.train.engine.loss.scored import Scored


def sample_losses(batch: Scored, margin: float = 0.2, hardest: bool = False) -> Float[Tensor, " pairs"]:
    """``mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+`` for each pair i, over all B cells of a row
    and a column.

    Source: L2RM (Han et al., CVPR 2024) Eq. 4 as the authors' code has it: the mean counts the diagonal as 0,
    and so every masked cell. hardest: the maximum of each instead, which is the paper's Eq. 4 by way of its
    Eq. 2. The value depends on which pairs share a batch. margin: 0.2 in both.
    """
    texts, images = violations(batch, margin)
    if hardest:
        return texts.max(dim=1).values + images.max(dim=0).values
    return texts.mean(dim=1) + images.mean(dim=0)
