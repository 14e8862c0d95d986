"""Exact ranks of some queries under a criterion whose number an item is known from below for all items, exactly for few."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.ranking.engine.bank import Bank, ItemBias
from vse_pipe.ranking.engine.bank_source import cosine
from vse_pipe.ranking.engine.criteria import Criterion
from vse_pipe.ranking.engine.outcome import Depths
from vse_pipe.ranking.engine.picked import Chosen
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.top import top_k
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.truth import Truth

# Items of a query that are corrected exactly at first, and what rounding may move a score of unit vectors by.
_AT_FIRST, _ROUNDING = 16, 1e-5


def exact_ranks(
    criterion: Criterion,
    scores: Scores,
    bias: ItemBias,
    queries: Float[Tensor, "bank dim"],
    items: Float[Tensor, "items dim"],
    truth: Truth,
    depths: Depths,
    ties: Ties,
) -> tuple[Float[np.ndarray, " rows"], Int[np.ndarray, "rows best"]]:
    """0-based ranks of the best correct items, exact below the largest K of ``depths`` and at least that where they are; and the ten
    best items under ``bias``.

    scores: uncorrected, of the rows of ``truth``; bias: at most the exact one of every item; queries: all of the bank, which
    the exact one is made from. Under ``bias`` no item scores less than it should, so that the best under it, corrected exactly, hold
    all that can be ahead of a correct item that scores above the next one. Where none does, more of them are looked at.
    """
    longest = [float(torch.linalg.vector_norm(one, dim=1).max()) for one in (queries, items)]
    rounding = _ROUNDING * longest[0] * longest[1]
    ranks, left, wide, ten = np.empty(len(truth)), np.arange(len(truth)), _AT_FIRST, None
    while len(left):
        part = truth.only(left)
        columns, raw, rest = _best(scores, left, bias, part, wide)
        ten = columns[:, :10] if ten is None else ten
        known, places = np.unique(np.concatenate([columns.ravel(), part.items]), return_inverse=True)
        own = Scores.of(queries, items[torch.from_numpy(known)], cosine)
        exactly = criterion.item_bias(Bank(own, True))
        assert exactly is not None
        listed = exactly.at(raw[0], places[: columns.size].reshape(columns.shape))
        right = np.maximum.reduceat(exactly.at(raw[1], places[columns.size :]), part.starts[:-1])
        above, alike = (listed > right[:, None]).sum(axis=1), (listed == right[:, None]) & ~_correct(part, columns)
        ranks[left] = above + {"optimistic": 0.0, "average": 0.5, "pessimistic": 1.0}[ties] * alike.sum(axis=1)
        open_ = (right <= rest + rounding * max(1.0, exactly.scale)) & (above < max(depths.recall))
        left, wide = left[open_], 4 * wide
    assert ten is not None
    return ranks, ten


def _best(
    scores: Scores, rows: np.ndarray, bias: ItemBias, truth: Truth, wide: int
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Columns of the best items under ``bias``, the uncorrected scores of these and of the correct items, and what all others score
    at most. rows: of the queries that ``truth`` is about."""
    wide = min(wide, scores.shape[1])
    columns, raw, rest, right = [], [], [], []
    chosen = Chosen(scores, rows)
    for part in chosen.strips():
        strip = chosen.strip(part)
        values, best = top_k(torch.add(-bias.bias.to(strip), strip, alpha=bias.scale), wide + 1)
        columns.append(best[:, :wide])
        raw.append(strip.gather(1, best[:, :wide]))
        rest.append(values[:, wide] if values.shape[1] > wide else torch.full((len(strip),), -torch.inf))
        right.append(strip[truth.of(part, strip.device)])
    found, those, others, correct = (torch.cat(one).cpu().numpy() for one in (columns, raw, rest, right))
    return found, (those, correct), others


def _correct(truth: Truth, columns: Int[np.ndarray, "rows best"]) -> Bool[np.ndarray, "rows best"]:
    rows = np.arange(len(truth)).repeat(columns.shape[1])
    return truth.holds(rows, columns.ravel()).reshape(columns.shape)
