"""What a query of several parts finds, one item and one part at a time."""

import math
from collections.abc import Callable, Sequence


def unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def inner(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def summed(vectors: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """One vector of unit length of weighted unit vectors."""
    total = [0.0] * len(vectors[0])
    for vector, weight in zip(vectors, weights, strict=True):
        for place, value in enumerate(unit(vector)):
            total[place] += weight * value
    return unit(total)


def averaged(scores: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Of each item, of scores by part."""
    share = sum(abs(weight) for weight in weights)
    return [
        sum(weight * of_part[item] for of_part, weight in zip(scores, weights, strict=True)) / share
        for item in range(len(scores[0]))
    ]


def grouped(
    scores: Sequence[float], kept: Sequence[bool], k: int, alike: Callable[[int, int], bool]
) -> list[tuple[int, list[int]]]:
    """From the best item on, each joins the first leader it is alike to, else it leads itself."""
    found: list[tuple[int, list[int]]] = []
    for item in sorted(range(len(scores)), key=lambda item: -scores[item]):
        if not kept[item]:
            continue
        for leader, group in found:
            if alike(leader, item):
                group.append(item)
                break
        else:
            found.append((item, []))
    return found[:k]
