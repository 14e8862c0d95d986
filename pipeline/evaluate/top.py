"""The k best items of each query, the same on every machine when scores tie."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pipeline.evaluate.scores import Scores


def top_k(
    scores: Float[Tensor, "rows items"], k: int
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Values and columns of the min(k, items) best per row, best first, equal scores by ascending column.

    ``torch.topk`` leaves open which of several equal scores it returns and in which order, so rows in which the best
    k + 1 hold a tie are chosen again. Entries of -inf count as absent: their columns are arbitrary.
    """
    k = min(k, scores.shape[1])
    values, columns = scores.topk(min(k + 1, scores.shape[1]))
    tied = ((values[:, 1:] == values[:, :-1]) & values[:, 1:].isfinite()).any(dim=1).nonzero()[:, 0]
    values, columns = values[:, :k].contiguous(), columns[:, :k].contiguous()
    if len(tied):
        columns[tied] = _first_of_ties(scores[tied], values[tied])
    return values, columns


def _first_of_ties(
    scores: Float[Tensor, "rows items"], values: Float[Tensor, "rows best"]
) -> Int[Tensor, "rows best"]:
    """Columns in the order (score descending, column ascending); values: the k best scores, sorted."""
    lowest = values[:, -1:]
    above, equal = scores > lowest, scores == lowest
    wanted = values.shape[1] - above.sum(dim=1, keepdim=True)
    equal &= equal.cumsum(dim=1, dtype=torch.int32) <= wanted
    columns = (above | equal).nonzero()[:, 1].reshape(values.shape)
    order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True).indices
    return columns.gather(1, order)


def mean_of_top(scores: Scores, k: int) -> Float[Tensor, " queries"]:
    """Mean of each query's min(k, items) largest scores: r of CSLS, MUSE's ``get_nn_avg_dist``."""
    nearest = min(k, scores.shape[1])
    return torch.cat([scores.strip(rows).topk(nearest).values.mean(dim=1) for rows in scores.strips()])


def ever_in_top(scores: Scores, k: int) -> Bool[Tensor, " items"]:
    """Is the item among the k best of some query?"""
    found = [top_k(scores.strip(rows), k)[1].flatten() for rows in scores.strips()]
    chosen = torch.zeros(scores.shape[1], dtype=torch.bool, device=found[0].device)
    chosen[torch.cat(found)] = True
    return chosen
