"""Phrase localisation by loops: one phrase, one box at a time."""

from itertools import combinations

# A mention: its picture, its phrase, its box, and the score of each proposal of the picture.
Box = tuple[float, float, float, float]
Mention = tuple[int, str, Box, list[float]]


def overlap(one: Box, other: Box) -> float:
    """Pixels that both hold over pixels that either holds; whole pixels, both corners inside."""
    held = [
        {(x, y) for x in range(int(box[0]), int(box[2]) + 1) for y in range(int(box[1]), int(box[3]) + 1)}
        for box in (one, other)
    ]
    return len(held[0] & held[1]) / len(held[0] | held[1])


def rank(mention: Mention, proposals: list[Box], threshold: float) -> int | None:
    """Of the first correct proposal, wrong ones with the same score before it."""
    hits = [overlap(mention[2], box) >= threshold for box in proposals]
    order = sorted(range(len(proposals)), key=lambda place: (-mention[3][place], hits[place]))
    return next((number for number, place in enumerate(order, start=1) if hits[place]), None)


def chance(hits: list[bool], k: int) -> float:
    """The share of all ways to draw k (or all, where there are fewer) that hold a hit."""
    draws = list(combinations(hits, min(k, len(hits))))
    return sum(any(draw) for draw in draws) / len(draws)


def suppressed(boxes: list[Box], scores: list[float], threshold: float) -> list[int]:
    """Places that stay, best first."""
    stay: list[int] = []
    for place in sorted(range(len(boxes)), key=lambda place: (-scores[place], place)):
        if all(overlap(boxes[place], boxes[other]) <= threshold for other in stay):
            stay.append(place)
    return stay


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
