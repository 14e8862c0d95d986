"""Hubness, and vectors that carry a criterion's correction."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from vse_pipe.api import arguments
from vse_pipe.api.criteria import Inference
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.stage import warn_of_residuals
from vse_pipe.export.export import folded
from vse_pipe.ranking import hubness as measures
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import foldable
from vse_pipe.ranking.scores import Scores, top_k
from vse_pipe.ranking.split import cosine


@dataclass(frozen=True)
class Corrected:
    """items: (N, D + 1) vectors with the correction; the inner product with ``queries(q)`` ranks
    them as the criterion does. Queries of any number become (Q, D + 1), their last value 1."""

    items: Any
    similarity: str

    def queries(self, queries: ArrayLike) -> Any:
        """(Q, D) queries as (Q, D + 1): [q, 1]."""
        place = arguments.device(queries)
        width = self.items.shape[1] - 1
        rows = torch.from_numpy(arguments.rows("queries", queries, self.similarity, width)).to(place)
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        return rows if isinstance(queries, Tensor) else rows.numpy()


def correct(
    items: ArrayLike,
    bank: ArrayLike,
    criterion: str | Inference = "nnn",
    *,
    bank_items: ArrayLike | None = None,
    similarity: str = "cosine",
    memory: int = 4096,
) -> Corrected:
    """Vectors that any index for inner products ranks by the criterion: ``[x, (m - b) / s]`` and
    ``[q, 1]`` for the score ``s q.x - b`` of an item with the correction b, of mean m.

    >>> import numpy as np, vse_pipe as vp
    >>> rng = np.random.default_rng(0)
    >>> images, train_captions, captions = rng.normal(size=(3, 20, 4))
    >>> index = vp.correct(images, bank=train_captions)
    >>> index.items.shape, index.queries(captions).shape
    ((20, 5), (20, 5))

    Args:
        items: (N, D) vectors to search in, such as images.
        bank: (B, D) vectors of queries, such as train captions.
        criterion: one that gives each item a number: "is", "csls", "nnn", "dual_is" or "sinkhorn".
        bank_items: (A, D) items that belong to the bank, for "dual_is".
        similarity, memory: as for ``rank``.
    """
    inference = Inference.named(criterion)
    parsed = foldable(inference.name, inference.options)
    place = arguments.device(items, bank)

    def vectors(name: str, value: ArrayLike, width: int | str = "dim") -> Tensor:
        return torch.from_numpy(arguments.rows(name, value, similarity, width)).to(place)

    ranked, gallery = vectors("items", items), None
    width = ranked.shape[1]
    if bank_items is not None:
        of_bank = vectors("bank_items", bank_items, width)
        gallery = partial(Scores.from_sides, of_bank, ranked, cosine, memory=memory, sets=0)
    elif inference.name == "dual_is":
        raise UsageError("dual_is compares items with the items of the bank; give bank_items")
    scores = Scores.from_sides(vectors("bank", bank, width), ranked, cosine, memory=memory)
    bias = parsed.item_bias(Bank(scores, False, gallery))
    assert bias is not None
    warn_of_residuals(parsed, {"correct": bias.notes}, partial(warnings.warn, stacklevel=3))
    _, wide = folded(ranked[:0], ranked, bias)
    return Corrected(wide if isinstance(items, Tensor) else wide.cpu().numpy(), similarity)


def hubness(scores: ArrayLike, k: int = 10) -> dict[str, Any]:
    """How unevenly the items are retrieved: how often each is among the best k, N_k. scores:
    (queries, items), larger is more similar.

    Returns ``occurrence``, N_k of each item (items,); its ``skewness`` (NaN where all are equal);
    ``robin_hood`` and ``gini`` from 0 to 1; ``anti_hubs``, the percentage of items with N_k = 0;
    and ``largest_hub``, the largest N_k.
    """
    arguments.number("k", k)
    cells = arguments.cells("scores", scores, arguments.device(scores))
    if not cells.isfinite().all():
        raise InputError("scores holds NaN or infinite values")
    best = [top_k(strip, k)[1].cpu().numpy().ravel() for _, strip in Scores.dense(cells).blocks()]
    counts = measures.occurrence(np.concatenate(best), cells.shape[1])
    return {
        "skewness": measures.skewness(counts),
        "robin_hood": measures.robin_hood(counts),
        "gini": measures.gini(counts),
        "anti_hubs": 100.0 * measures.anti_hubs(counts),
        "largest_hub": measures.largest_hub(counts),
        "occurrence": counts,
    }
