"""Hubness of the items of a fold. n: int (items,), N_k of the items."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.ranking.metrics import hubness

_SHARES = (hubness.robin_hood, hubness.gini, hubness.anti_hubs, hubness.hub_share)


@dataclass(frozen=True)
class Hubness:
    """robin_hood, gini, anti_hubs, hub_share: shares in 0..1. largest: the largest N_k of all folds."""

    robin_hood: float
    gini: float
    anti_hubs: float
    hub_share: float
    largest: int


def measure(items: pd.DataFrame, k: int) -> Hubness:
    """The mean over folds. items: rows of occurrence.parquet in one direction."""
    folds = [group[f"n_{k}"].to_numpy() for _, group in items.groupby("fold")]
    robin_hood, gini, anti_hubs, hub_share = np.mean(
        [[measure(n) for measure in _SHARES] for n in folds], axis=0
    ).tolist()
    return Hubness(robin_hood, gini, anti_hubs, hub_share, largest=int(max(n.max() for n in folds)))


def attracted(top: pa.ListArray, items: list[int], limit: int) -> dict[int, tuple[list[int], int]]:
    """For each item: at most ``limit`` rows of ``top`` with the item in their list, ordered by its position and then by
    row; and the number of all such rows."""
    flat, rows = (part.to_numpy(zero_copy_only=False) for part in (pc.list_flatten(top), pc.list_parent_indices(top)))
    lengths = pc.list_value_length(top).to_numpy(zero_copy_only=False)
    place = np.arange(len(flat)) - np.repeat(lengths.cumsum() - lengths, lengths)
    lists = {}
    for item in items:
        positions = np.flatnonzero(flat == item)
        nearest = positions[np.lexsort((rows[positions], place[positions]))]
        lists[item] = rows[nearest[:limit]].tolist(), len(positions)
    return lists
