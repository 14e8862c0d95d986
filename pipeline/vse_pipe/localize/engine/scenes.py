"""The pictures of a split one by one: their mentions, their proposals, and how well each pair of the two fits."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from vse_pipe.ranking.scores import Similarity


@dataclass(frozen=True)
class BoxSide:
    """Mentions or proposals, those of one picture together. table: a row each, with the box; pictures: int64, ascending;
    vectors: of the run's space."""

    table: pa.Table
    pictures: np.ndarray
    boxes: Float[Tensor, "rows 4"]
    vectors: Float32[np.ndarray, "rows dim"]

    @classmethod
    def of(cls, table: pa.Table, key: str, boxes: np.ndarray, vectors: np.ndarray) -> "BoxSide":
        """key: the column of the picture; boxes, vectors: in the rows of ``table``, which are put in order of it."""
        pictures = table[key].to_numpy()
        order = np.argsort(pictures, kind="stable")
        return cls(table.take(order), pictures[order], torch.from_numpy(boxes[order]), vectors[order])


@dataclass(frozen=True)
class BoxScene:
    """One picture. mentions, proposals: rows of the two sides; place: of the picture among all."""

    place: int
    mentions: slice
    proposals: slice
    truth: Float[Tensor, "mentions 4"]
    boxes: Float[Tensor, "proposals 4"]
    scores: Float[Tensor, "mentions proposals"]


def scenes(mentions: BoxSide, proposals: BoxSide, similarity: Similarity, device: torch.device) -> Iterator[BoxScene]:
    """In the order of ``mentions``. A picture may have no proposal."""
    pictures, first = np.unique(mentions.pictures, return_index=True)
    ends = np.append(first[1:], len(mentions.pictures))
    low, high = (np.searchsorted(proposals.pictures, pictures, side) for side in ("left", "right"))
    phrases, regions = (torch.from_numpy(side.vectors).to(device) for side in (mentions, proposals))
    for place in range(len(pictures)):
        here, there = slice(first[place], ends[place]), slice(low[place], high[place])
        scores = similarity(regions[there], phrases[here]).T.cpu()
        yield BoxScene(place, here, there, mentions.boxes[here], proposals.boxes[there], scores)
