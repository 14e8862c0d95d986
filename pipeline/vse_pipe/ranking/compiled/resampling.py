"""Metrics of a weighted query set, a row of weights at a time: compiled, and free of matrix products, so that
neither the number of rows at once nor the machine's BLAS changes a bit of the result."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def means(weights, sums, sizes):
    """Weighted means over queries. weights: int64 (draws, images); sums: float64 (images, metrics), what the
    queries of each image add up to; sizes: int64 (images,), how many they are. float64 (draws, metrics), NaN
    where no query is drawn."""
    draws, images = weights.shape
    found = np.zeros((draws, sums.shape[1]))
    for draw in range(draws):
        queries = 0
        for image in range(images):
            weight = weights[draw, image]
            if weight:
                queries += weight * sizes[image]
                for metric in range(sums.shape[1]):
                    found[draw, metric] += weight * sums[image, metric]
        found[draw] = found[draw] / queries if queries else np.full(sums.shape[1], np.nan)
    return found


@njit(cache=True, nogil=True)
def medians(weights, ascending, images_of):
    """floor of the weighted median rank. ascending: float64 (queries,), sorted ranks; images_of: int64, the
    image of each. float64 (draws,), NaN where no query is drawn."""
    draws = len(weights)
    found = np.empty(draws)
    for draw in range(draws):
        queries = 0
        for query in range(len(ascending)):
            queries += weights[draw, images_of[query]]
        if queries == 0:
            found[draw] = np.nan
            continue
        seen, query, lower = 0, -1, (queries - 1) // 2
        while seen <= lower:
            query += 1
            seen += weights[draw, images_of[query]]
        low = ascending[query]
        while seen <= queries // 2:
            query += 1
            seen += weights[draw, images_of[query]]
        found[draw] = np.floor((low + ascending[query]) / 2)
    return found


@njit(cache=True, nogil=True)
def hubness(weights, images_of, starts, picks, items, k):
    """skewness, Robin Hood index, Gini index, anti-hubs in percent and largest hub of N_k: float64 (draws,
    5).

    picks: int64, the chosen items, those of query q from starts[q] to starts[q + 1], of which the first k
    count.
    """
    found = np.empty((len(weights), 5))
    counts = np.empty(items, np.int64)
    for draw in range(len(weights)):
        counts[:] = 0
        for query in range(len(images_of)):
            weight = weights[draw, images_of[query]]
            if weight:
                for pick in range(starts[query], min(starts[query] + k, starts[query + 1])):
                    counts[picks[pick]] += weight
        found[draw] = _shape(counts)
    return found


@njit(cache=True, nogil=True)
def _shape(counts):
    items, total, largest = len(counts), counts.sum(), counts.max()
    mean = total / items
    second = third = distance = 0.0
    for count in counts:
        away = count - mean
        second += away * away
        third += away * away * away
        distance += abs(away)
    shape = np.zeros(5)
    shape[0] = (third / items) / (second / items) ** 1.5 if second > 0 else np.nan
    # The sorted counts of the Gini index, by counting how many items share each value.
    sharing = np.bincount(counts)
    if total:
        below, weighted = 0, 0
        for value in range(len(sharing)):
            same = sharing[value]
            weighted += value * same * (2 * below + same - items)
            below += same
        shape[1] = distance / (2 * total)
        shape[2] = weighted / (items * total)
    shape[3] = 100.0 * sharing[0] / items
    shape[4] = largest
    return shape
