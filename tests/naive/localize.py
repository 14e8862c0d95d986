"""Phrase localisation by loops: one phrase, one box at a time."""

from functools import partial
from itertools import combinations

from tests.naive import regions

# A mention: its picture, its phrase, its box, and the score of each proposal of the picture.
Box = tuple[float, float, float, float]
Mention = tuple[int, str, Box, list[float]]
# Right and lower pixels belong to the boxes.
overlap, suppressed = partial(regions.overlap, last=1.0), partial(regions.suppressed, last=1.0)


def rank(mention: Mention, proposals: list[Box], threshold: float) -> int | None:
    """Of the first correct proposal, wrong ones with the same score before it."""
    hits = [overlap(mention[2], box) >= threshold for box in proposals]
    order = sorted(range(len(proposals)), key=lambda place: (-mention[3][place], hits[place]))
    return next((number for number, place in enumerate(order, start=1) if hits[place]), None)


def chance(hits: list[bool], k: int) -> float:
    """The share of all ways to draw k (or all, where there are fewer) that hold a hit."""
    draws = list(combinations(hits, min(k, len(hits))))
    return sum(any(draw) for draw in draws) / len(draws)


def average_precision(
    text: str, mentions: list[Mention], proposals: dict[int, list[Box]], threshold: float, nms: float, eleven: bool
) -> float:
    """Of one phrase over all pictures that contain it. A picture may stand under several numbers: one drawn twice."""
    truths: dict[int, list[Box]] = {}
    scores: dict[int, list[float]] = {}
    for picture, said, box, score in mentions:
        if said == text:
            scores.setdefault(picture, score)
            if box not in truths.setdefault(picture, []):
                truths[picture].append(box)
    ranked = []
    for picture, boxes in truths.items():
        taken = set()
        for place in suppressed(proposals[picture], scores[picture], nms):
            overlaps = [overlap(proposals[picture][place], box) for box in boxes]
            which = overlaps.index(max(overlaps))
            right = overlaps[which] >= threshold and which not in taken
            taken |= {which} if right else set()
            ranked.append((scores[picture][place], right))
    ranked.sort(key=lambda one: (-one[0], one[1]))
    total, found, curve = sum(map(len, truths.values())), 0, []
    for number, (_, right) in enumerate(ranked, start=1):
        found += right
        curve.append((found / total, found / number))

    def best(recall: float) -> float:
        return max((precision for reached, precision in curve if reached >= recall - 1e-12), default=0.0)

    if eleven:
        return sum(best(tenth / 10) for tenth in range(11)) / 11
    return sum(best(one / total) / total for one in range(1, found + 1))
