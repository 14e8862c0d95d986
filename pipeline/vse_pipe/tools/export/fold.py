"""A criterion's correction as one more dimension: plain inner-product search then ranks as the criterion does."""

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
    """key: image_id or caption_id, what ``ids`` are; vectors: float32, the last dimension is the correction; names: the ids where
    they are text."""

    key: str
    ids: Int64[ndarray, " rows"]
    vectors: Float[ndarray, "rows wide"]
    names: pa.Array | None = None

    @property
    def shown(self) -> pa.Array:
        """The ids as the data set has them, int64 or text."""
        return pa.array(self.ids) if self.names is None else self.names

    @property
    def array(self) -> ndarray:
        """The same for a .npy file: text as fixed-width Unicode, which needs no pickle."""
        return self.ids if self.names is None else np.array(self.names.to_pylist(), dtype=str)


@dataclass(frozen=True)
class Folded:
    """What is searched, and what it is searched with; the items of a query are those with the largest inner products.

    correct: ids of queries and items, parallel, where it is known which belong together; depth: how many items a query are
    answers where answers are written."""

    direction: str
    items: FoldedSide
    queries: FoldedSide
    correct: tuple[Int64[ndarray, " pairs"], Int64[ndarray, " pairs"]] | None = None
    depth: int = DEPTH


def folded(
    queries: Float[Tensor, "queries dim"], items: Float[Tensor, "items dim"], bias: ItemBias
) -> tuple[Float[Tensor, "queries wide"], Float[Tensor, "items wide"]]:
    """``[q, 1]`` and ``[x, (m - bias) / scale]``, in the precision of the vectors; m, the mean bias, moves all items alike
    and leaves the digits to what differs.

    Their inner product is the criterion's score over its scale but for a constant: the same order of items
    for each query. Items whose scores are all but equal may change places, as sums round differently; under the inverted
    softmax of a bank of very few queries, these are the items of which one query has all the attention.
    """
    if bias.scale <= 0:
        raise ValueError(f"a scale of {bias.scale} turns the order round")
    column = ((bias.bias.mean() - bias.bias) / bias.scale).to(items)[:, None]
    if not column.isfinite().all():
        raise InputError("the correction leaves the range of the vectors' precision; choose milder parameters")
    return torch.cat([queries, queries.new_ones(len(queries), 1)], dim=1), torch.cat([items, column], dim=1)
