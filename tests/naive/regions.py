"""Plain loops for regions: grid cells, overlap of boxes, relaxed suppression."""

import math
from collections.abc import Sequence

Box = list[float]


def cells(rows: int, columns: int, height: int, width: int, window: Box) -> list[Box]:
    """The cells' edges in the picture; window: the edges of what the map covers."""
    x1, y1, x2, y2 = window
    found = []
    for row in range(rows):
        for column in range(columns):
            left, right = math.floor(column * width / columns), math.ceil((column + 1) * width / columns)
            top, bottom = math.floor(row * height / rows), math.ceil((row + 1) * height / rows)
            found.append(
                [
                    x1 + (x2 - x1) * left / width,
                    y1 + (y2 - y1) * top / height,
                    x1 + (x2 - x1) * right / width,
                    y1 + (y2 - y1) * bottom / height,
                ]
            )
    return found


def pooled(image: list[list[float]], rows: int, columns: int, pool) -> list[float]:
    """``pool`` of the numbers of each cell, row by row."""
    height, width, found = len(image), len(image[0]), []
    for row in range(rows):
        for column in range(columns):
            ys = range(math.floor(row * height / rows), math.ceil((row + 1) * height / rows))
            xs = range(math.floor(column * width / columns), math.ceil((column + 1) * width / columns))
            found.append(pool([image[y][x] for y in ys for x in xs]))
    return found


def overlap(a: Sequence[float], b: Sequence[float], last: float = 0.0) -> float:
    """Intersection over union. last: 1 where right and lower pixels belong to the boxes, 0 where they are edges."""
    width = min(a[2], b[2]) - max(a[0], b[0]) + last
    height = min(a[3], b[3]) - max(a[1], b[1]) + last
    inter = max(0.0, width) * max(0.0, height)
    areas = [(x2 - x1 + last) * (y2 - y1 + last) for x1, y1, x2, y2 in (a, b)]
    return inter / (sum(areas) - inter)


def suppressed(boxes: Sequence, scores: list[float], threshold: float, last: float = 0.0) -> list[int]:
    """Greedy non-maximum suppression: what is left, best first; of equal scores the first comes first."""
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[i], boxes[j], last) <= threshold for j in kept):
            kept.append(i)
    return kept


def relaxed(boxes: list[Box], scores: list[float], count: int, thresholds: list[float]) -> list[int]:
    """The best ``count`` of the first threshold that leaves as many; else all of the last, filled with the best others."""
    kept: list[int] = []
    for threshold in thresholds:
        kept = suppressed(boxes, scores, threshold)
        if len(kept) >= count:
            return kept[:count]
    order = sorted(range(len(boxes)), key=lambda i: (-scores[i], i))
    others = [i for i in order if i not in kept]
    chosen = kept + others[: count - len(kept)]
    return [i for i in order if i in chosen]
