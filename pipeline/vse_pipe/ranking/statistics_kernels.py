"""Compiled loops over bootstrap draws (average precision, ranks, hubness) and under mutual proximity."""

import math
from functools import cache

import numpy as np
import torch
from numba import njit


@njit(cache=True, nogil=True)
def by_class(weights, starts, finds, before_starts, before_pictures, before, truth_starts, truths, eleven):
    """Average precision of each class, float64 (draws, classes), 0 to 1; NaN where no picture with a true box is drawn.

    weights: int64 (draws, pictures), how often each picture counts; the rest are the fields of
    ``vse_pipe.localize.stage.Classes``. Precision at a recall is the best at that recall or a larger one. The average
    precision is the area under that curve, or with ``eleven`` its mean at the recalls 0, 0.1, ..., 1 (Everingham et
    al., IJCV 2015, section 3.4.1; IJCV 2010, section 4.2)."""
    classes = len(starts) - 1
    averages = np.full((len(weights), classes), np.nan)
    precision, found_hits = np.empty(len(finds)), np.empty(len(finds), np.int64)
    for draw in range(len(weights)):
        for c in range(classes):
            positives = 0
            for truth in range(truth_starts[c], truth_starts[c + 1]):
                positives += weights[draw, truths[truth]]
            if positives == 0:
                continue
            answers, hits, points = 0, 0, 0
            for find in range(starts[c], starts[c + 1]):
                for row in range(before_starts[find], before_starts[find + 1]):
                    answers += before[row] * weights[draw, before_pictures[row]]
                weight = weights[draw, finds[find]]
                if weight:
                    hits += weight
                    precision[points], found_hits[points] = hits / answers, hits
                    points += 1
            best = area = 0.0
            for place in range(points - 1, -1, -1):
                best = max(best, precision[place])
                earlier = found_hits[place - 1] if place else 0
                if eleven:
                    area += best * (10 * found_hits[place] // positives - 10 * earlier // positives + (place == 0)) / 11
                else:
                    area += best * (found_hits[place] - earlier) / positives
            averages[draw, c] = area
    return averages


# Mutual proximity in float32 reads logarithms of the normal distribution function from a table, with linear
# interpolation between 1,024 values a unit. The error is 1e-7 below 0. Where the value approaches 0 it is less than
# 1e-5 of the value, as much as rounding z to float32 causes. Rows with values beyond the table are computed again
# exactly.
_PER_UNIT, _EDGE = 1024, 13.0


@cache
def table() -> np.ndarray:
    """``log F(z)`` for z from -13 to 13, float32."""
    z = torch.linspace(-_EDGE, _EDGE, int(2 * _EDGE * _PER_UNIT) + 1, dtype=torch.float64)
    return torch.special.log_ndtr(z).float().numpy()


@njit(cache=True, nogil=True)
def _exact(z):
    if z > -_EDGE:
        return (
            math.log1p(-0.5 * math.erfc(z * math.sqrt(0.5)))
            if z > 0
            else math.log(0.5 * math.erfc(-z * math.sqrt(0.5)))
        )
    return -0.5 * z * z - math.log(-z * math.sqrt(2 * math.pi))


@njit(cache=True, nogil=True)
def _row(row, centre, sharpness, mean, item_sharpness, values, out):
    """Fill ``out``; returns the smallest z of the row."""
    edge, per_unit, last = np.float32(_EDGE), np.float32(_PER_UNIT), len(values) - 2
    lowest = np.float32(0.0)
    for item in range(len(row)):
        query_z = (row[item] - centre) * sharpness
        item_z = (row[item] - mean[item]) * item_sharpness[item]
        lowest = min(lowest, query_z, item_z)
        place = (min(query_z, edge) + edge) * per_unit
        below = min(max(int(place), 0), last)
        total = values[below] + (place - np.float32(below)) * (values[below + 1] - values[below])
        place = (min(item_z, edge) + edge) * per_unit
        below = min(max(int(place), 0), last)
        out[item] = total + values[below] + (place - np.float32(below)) * (values[below + 1] - values[below])
    return lowest


@njit(cache=True, nogil=True)
def certainty(strip, centre, sharpness, mean, item_sharpness, values, out, start, stop):
    """Fill ``out`` with ``log F_q + log F_n`` for the rows from start to stop.

    strip, out: float32 (rows, items); centre, sharpness: mean and inverse deviation of each row, (rows,); mean,
    item_sharpness: the same of each item, (items,); values: ``table()``."""
    for number in range(start, stop):
        row = strip[number]
        if _row(row, centre[number], sharpness[number], mean, item_sharpness, values, out[number]) <= -_EDGE:
            for item in range(len(row)):
                query_z = float(row[item] - centre[number]) * sharpness[number]
                item_z = float(row[item] - mean[item]) * item_sharpness[item]
                out[number, item] = _exact(query_z) + _exact(item_z)


# The metrics of weighted queries take one row of weights at a time and no matrix product, so neither the number of rows
# nor the machine's BLAS changes a bit of the result.


@njit(cache=True, nogil=True)
def means(weights, sums, sizes):
    """Weighted means over queries, float64 (draws, metrics); NaN where no query is drawn.

    weights: int64 (draws, images); sums: float64 (images, metrics), the sums over the queries of each image; sizes:
    int64 (images,), the number of queries of each image."""
    draws, images = weights.shape
    averages = np.zeros((draws, sums.shape[1]))
    for draw in range(draws):
        queries = 0
        for image in range(images):
            weight = weights[draw, image]
            if weight:
                queries += weight * sizes[image]
                for metric in range(sums.shape[1]):
                    averages[draw, metric] += weight * sums[image, metric]
        averages[draw] = averages[draw] / queries if queries else np.full(sums.shape[1], np.nan)
    return averages


@njit(cache=True, nogil=True)
def medians(weights, ascending, images_of):
    """floor of the weighted median rank, float64 (draws,); NaN where no query is drawn.

    weights: int64 (draws, images); ascending: float64 (queries,), sorted ranks; images_of: int64, their images."""
    draws = len(weights)
    ranks = np.empty(draws)
    for draw in range(draws):
        queries = 0
        for query in range(len(ascending)):
            queries += weights[draw, images_of[query]]
        if queries == 0:
            ranks[draw] = np.nan
            continue
        cumulated, query, lower = 0, -1, (queries - 1) // 2
        while cumulated <= lower:
            query += 1
            cumulated += weights[draw, images_of[query]]
        low = ascending[query]
        while cumulated <= queries // 2:
            query += 1
            cumulated += weights[draw, images_of[query]]
        ranks[draw] = np.floor((low + ascending[query]) / 2)
    return ranks


@njit(cache=True, nogil=True)
def hubness(weights, images_of, starts, picks, items, k):
    """Skewness, Robin Hood index, Gini index, anti-hubs in percent and largest hub of N_k: float64 (draws, 5).

    images_of: int64, the image of each query; picks: int64, the chosen items, for query q from starts[q] to starts[q +
    1]; the first k count; items: number of items."""
    figures = np.empty((len(weights), 5))
    counts = np.empty(items, np.int64)
    for draw in range(len(weights)):
        counts[:] = 0
        for query in range(len(images_of)):
            weight = weights[draw, images_of[query]]
            if weight:
                for pick in range(starts[query], min(starts[query] + k, starts[query + 1])):
                    counts[picks[pick]] += weight
        figures[draw] = _shape(counts)
    return figures


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
    # The Gini index needs sorted counts: the number of items with each count.
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
