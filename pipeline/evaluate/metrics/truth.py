"""Which items are correct for which query; any number of them, one at least."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pipeline.errors import InputError
from pipeline.evaluate.ragged import spans


@dataclass(frozen=True)
class Truth:
    """starts: int64 (queries + 1,); items: int64, those correct for query q are ``items[starts[q]:starts[q + 1]]``;
    columns: how many items there are to choose from."""

    starts: np.ndarray
    items: np.ndarray
    columns: int

    @classmethod
    def by_image(cls, query_images: np.ndarray, item_images: np.ndarray) -> "Truth":
        """An item is correct when it carries the query's image_id. Raises InputError when a query has none."""
        order = np.argsort(item_images, kind="stable")
        first = np.searchsorted(item_images[order], query_images, side="left")
        counts = np.searchsorted(item_images[order], query_images, side="right") - first
        lonely = query_images[counts == 0]
        if len(lonely):
            raise InputError(
                f"{len(lonely)} queries have no correct item, the first is of image_id {lonely[0]}; "
                "every image needs a caption in the same split, and every caption its image"
            )
        starts = np.concatenate([[0], counts.cumsum()])
        return cls(starts, order[spans(first, counts)], len(item_images))

    @classmethod
    def listed(cls, correct: list[np.ndarray], columns: int) -> "Truth":
        """From the correct columns of each query, one array a query."""
        starts = np.concatenate([[0], np.cumsum([len(items) for items in correct])])
        return cls(starts, np.concatenate(correct).astype(np.int64), columns)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, rows: slice, device: torch.device) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
        """The correct pairs of some queries: row within ``rows``, and column."""
        starts = self.starts[rows.start : rows.stop + 1]
        local = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        columns = self.items[starts[0] : starts[-1]]
        return torch.from_numpy(local).to(device), torch.from_numpy(columns).to(device)

    def holds(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """bool (pairs,): is that item correct for that query?"""
        queries = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return np.isin(rows * self.columns + columns, queries * self.columns + self.items)
