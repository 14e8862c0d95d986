"""The k best items of each query, the same on every machine when scores tie."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.ranking.engine import tiles
from vse_pipe.ranking.engine.picked import Shuffled
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.threads import over_rows

# Where the compiled loop beats torch.topk, as measured: long lists, and short ones of long rows.
_LONG_LIST, _LONG_ROW = 64, 1 << 14
_COMPILED = (torch.float32, torch.float64)


def top_k(
    scores: Float[Tensor, "rows items"], k: int, priority: Int[np.ndarray, " items"] | None = None
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Values and columns of the min(k, items) best per row, best first, equal scores by ascending ``priority``, by
    ascending column without one. Entries of -inf count as absent: their columns are arbitrary.

    ``torch.topk`` leaves open which of several equal scores it returns and in which order, so rows in which the best
    k + 1 hold a tie are chosen again. A compiled loop takes its place where that is faster.
    """
    k = min(k, scores.shape[1])
    if scores.is_cpu and scores.dtype in _COMPILED and (k >= _LONG_LIST or scores.shape[1] >= _LONG_ROW):
        found = _compiled(scores, k, priority)
        if found is not None:
            return found
    if priority is not None:
        order = torch.from_numpy(np.argsort(priority)).to(scores.device)
        values, places = top_k(scores[:, order], k)
        return values, order[places]
    values, columns = scores.topk(min(k + 1, scores.shape[1]))
    tied = ((values[:, 1:] == values[:, :-1]) & values[:, 1:].isfinite()).any(dim=1).nonzero()[:, 0]
    values, columns = values[:, :k].contiguous(), columns[:, :k].contiguous()
    if len(tied):
        columns[tied] = _first_of_ties(scores[tied], values[tied])
    return values, columns


def best_of(scores: Scores, rows: slice, k: int) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """``top_k`` of a strip, without moving the items of shuffled scores."""
    if not isinstance(scores, Shuffled):
        return top_k(scores.strip(rows), k)
    places = np.argsort(scores.order)
    values, columns = top_k(scores.base.strip(rows), k, places)
    return values, torch.from_numpy(places).to(columns.device)[columns]


def _compiled(scores: Tensor, k: int, priority: np.ndarray | None) -> tuple[Tensor, Tensor] | None:
    """None where an entry is not finite."""
    # numba takes half a second to import, which commands that rank nothing should not pay.
    from vse_pipe.ranking.compiled.top import select

    rows = scores.contiguous().numpy()
    best, columns = np.empty((len(rows), k), rows.dtype), np.empty((len(rows), k), np.int64)
    by = np.arange(rows.shape[1]) if priority is None else priority
    finite: list[bool] = []
    over_rows(lambda start, stop: finite.append(select(rows, k, by, best, columns, start, stop)), len(rows))
    return (torch.from_numpy(best), torch.from_numpy(columns)) if all(finite) else None


def _first_of_ties(scores: Float[Tensor, "rows items"], values: Float[Tensor, "rows best"]) -> Int[Tensor, "rows best"]:
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
    if (found := tiles.means(scores, k)) is not None:
        return found
    # Filled in place: small results that live on between large strips keep the memory of the strips from being reused.
    means = torch.empty(0)
    for rows, of_strip in scores.each(lambda rows: top_k(scores.strip(rows), k)[0].mean(dim=1)):
        means = means if len(means) else of_strip.new_empty(scores.shape[0])
        means[rows] = of_strip
    return means


def ever_in_top(scores: Scores, k: int) -> Bool[Tensor, " items"]:
    """Is the item among the k best of some query?"""
    chosen = torch.empty(0, dtype=torch.bool)
    for _, found in scores.each(lambda rows: top_k(scores.strip(rows), k)[1].flatten()):
        chosen = chosen if len(chosen) else found.new_zeros(scores.shape[1], dtype=torch.bool)
        chosen[found] = True
    return chosen
