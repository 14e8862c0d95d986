"""Fold a criterion's correction into one more dimension, so that plain inner-product search ranks as the criterion does."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.bank import ItemBias

DEPTH = 100


@dataclass(frozen=True)
class FoldedSide:
    """key: kind of ``ids``, image_id or caption_id; vectors: float32, the last dimension is the correction; names: text ids, if
    the data set has them."""

    key: str
    ids: Int64[ndarray, " rows"]
    vectors: Float[ndarray, "rows wide"]
    names: pa.Array | None = None

    @property
    def labels(self) -> pa.Array:
        """The ids of the data set, int64 or text."""
        return pa.array(self.ids) if self.names is None else self.names

    @property
    def array(self) -> ndarray:
        """The labels for a .npy file: text as fixed-width Unicode, which needs no pickle."""
        return self.ids if self.names is None else np.array(self.names.to_pylist(), dtype=str)


@dataclass(frozen=True)
class Folded:
    """Queries and items of one direction; the answers of a query are the items with the largest inner products.

    correct: parallel ids of queries and items that belong together, None if unknown; depth: number of answers of a query."""

    direction: str
    items: FoldedSide
    queries: FoldedSide
    correct: tuple[Int64[ndarray, " pairs"], Int64[ndarray, " pairs"]] | None = None
    depth: int = DEPTH


def folded(
    queries: Float[Tensor, "queries dim"], items: Float[Tensor, "items dim"], bias: ItemBias
) -> tuple[Float[Tensor, "queries wide"], Float[Tensor, "items wide"]]:
    """``[q, 1]`` and ``[x, (m - bias) / scale]`` with the mean bias m, in the precision of the vectors.

    m shifts all items equally and saves precision. The inner product is the criterion's score over its scale plus a constant, so
    each query has the same order of items. Items with nearly equal scores may swap, because sums round differently.
    """
    if bias.scale <= 0:
        raise ValueError(f"a scale of {bias.scale} turns the order round")
    column = ((bias.bias.mean() - bias.bias) / bias.scale).to(items)[:, None]
    if not column.isfinite().all():
        raise InputError("the correction leaves the range of the vectors' precision; choose milder parameters")
    return torch.cat([queries, queries.new_ones(len(queries), 1)], dim=1), torch.cat([items, column], dim=1)
