"""Fusion of rankings and scores, and cascades, one query after the other."""

import math


def reciprocal_ranks(row, k=60):
    """Equal scores share the best rank."""
    return [1 / (k + 1 + sum(other > score for other in row)) for score in row]


def standardised(row):
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in row) / len(row))
    return [(score - mean) / deviation if deviation else 0.0 for score in row]


def fused(members, rule, weights):
    """members: of each model a list of rows."""
    found = []
    for rows in zip(*members, strict=True):
        each = [rule(list(row)) for row in rows]
        found.append([sum(w * one[item] for w, one in zip(weights, each, strict=True)) for item in range(len(rows[0]))])
    return found


def cascade(first, second, k):
    """Of one query the items best first: the k best by ``first`` in the order of ``second``, then the others by ``first``."""
    by_first = sorted(range(len(first)), key=lambda item: (-first[item], item))
    best = sorted(by_first[:k], key=lambda item: (-second[item], item))
    return best + by_first[k:]
