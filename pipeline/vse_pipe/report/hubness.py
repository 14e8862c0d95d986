"""Hubness of the items of a fold. n: int (items,), N_k of the items."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.ranking.metrics import hubness

_GROWTH = 1.25
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


def log_histogram(n: np.ndarray) -> list[tuple[int, int, int]]:
    """(first N_k, last N_k, items) of each bin with items, for N_k of at least 1: 1, 2, 3, 4 to 5, 6 to 7, 8 to 10, ...

    A bin ends a quarter above its start, so that bins have equal widths on a log axis and a long tail is readable."""
    edges = log_edges(int(n.max(initial=0)))
    counts, _ = np.histogram(n, edges)
    return [
        (low, high - 1, int(count)) for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True) if count
    ]


def log_edges(largest: int) -> list[int]:
    """The starts of the bins of ``log_histogram`` and the end of the last one; at least two edges."""
    edges = [1]
    while edges[-1] <= largest or len(edges) < 2:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _GROWTH) + 1))
    return edges


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
