"""R-precision among all items that show the same things as the query: plausible matches, whoever wrote or took them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.ranking.metrics.ranks import Ties

# How many labels may differ: PMRP is the mean of the three.
DIFFERENCES = (0, 1, 2)
_SHARE = {"pessimistic": 1.0, "average": 0.5, "optimistic": 0.0}


def distances(
    queries: Float[Tensor, "rows labels"], items: Float[Tensor, "items labels"]
) -> Float[Tensor, "rows items"]:
    """How many labels the two do not share; 1 where it has a label, 0 where not."""
    return queries.sum(dim=1)[:, None] + items.sum(dim=1) - 2 * queries @ items.T


def r_precisions(
    scores: Float[Tensor, "rows items"],
    distances: Float[Tensor, "rows items"],
    ties: Ties,
    differences: Sequence[int] = DIFFERENCES,
) -> Float[Tensor, "rows differences"]:
    """For each number of differences the share of the best R that is plausible, R items being so; NaN where none is.

    Plausible Match R-Precision (PMRP) of Chun et al., Probabilistic Embeddings for Cross-Modal Retrieval, CVPR 2021: the mean
    over the columns, then over the queries. Their code leaves ties to a sort; here wrong items with the score of a plausible
    one stand before it, as ``metrics.positions`` has it. ECCV Caption (ECCV 2022) has the first column only, and no R above 50.
    """
    ordered = scores.sort(dim=1, descending=True).values
    return torch.stack([_share(scores, ordered, distances <= most, ties) for most in differences], dim=1)


def _share(
    scores: Float[Tensor, "rows items"],
    ordered: Float[Tensor, "rows items"],
    plausible: Bool[Tensor, "rows items"],
    ties: Ties,
) -> Float[Tensor, " rows"]:
    """An item above the R-th score is among the best R; of those that have it, as many as there is room for behind the wrong
    ones that stand before them."""
    number = plausible.sum(dim=1)
    last = ordered.gather(1, (number - 1).clamp_min(0)[:, None])
    above, level = scores > last, scores == last
    before = _SHARE[ties] * (level & ~plausible).sum(dim=1)
    room = (number - above.sum(dim=1) - before).ceil().clamp_min(0)
    found = (above & plausible).sum(dim=1) + room.minimum((level & plausible).sum(dim=1))
    return torch.where(number > 0, found / number, torch.nan).double()
