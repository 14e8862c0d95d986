"""Bins of N_k, how many queries have an item among their best k, equal on a log axis."""

import numpy as np

_GROWTH = 1.25


def log_histogram(n: np.ndarray) -> list[tuple[int, int, int]]:
    """(first N_k, last N_k, items) of each bin with items, for N_k of at least 1: 1, 2, 3, 4 to 5,
    6 to 7, 8 to 10, ...

    A bin ends a quarter above its start, so that bins have equal widths on a log axis and a long
    tail is readable."""
    edges = log_edges(int(n.max(initial=0)))
    counts, _ = np.histogram(n, edges)
    bins = zip(edges[:-1], edges[1:], counts, strict=True)
    return [(low, high - 1, int(count)) for low, high, count in bins if count]


def log_edges(largest: int) -> list[int]:
    """The starts of the bins of ``log_histogram`` and the last end; at least two edges."""
    edges = [1]
    while edges[-1] <= largest or len(edges) < 2:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _GROWTH) + 1))
    return edges
