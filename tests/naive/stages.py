"""What a query of several parts finds, one item and one part at a time."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations

from tests.naive import data


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


def auc(values, mismatched):
    """Of all pairs of one mismatched and one matched pair: how often the mismatched one has the higher value."""
    wrong = [value for value, is_wrong in zip(values, mismatched, strict=True) if is_wrong]
    right = [value for value, is_wrong in zip(values, mismatched, strict=True) if not is_wrong]
    won = sum(1.0 if bad > good else 0.5 if bad == good else 0.0 for bad in wrong for good in right)
    return won / (len(wrong) * len(right))


def average_precision(values, mismatched):
    """Lower the threshold from value to value; at each, the precision times what the recall has gained."""
    total, recall_before = 0.0, 0.0
    for threshold in sorted(set(values), reverse=True):
        flagged = [is_wrong for value, is_wrong in zip(values, mismatched, strict=True) if value >= threshold]
        recall = sum(flagged) / sum(mismatched)
        total += sum(flagged) / len(flagged) * (recall - recall_before)
        recall_before = recall
    return total


def partners(scores, owners):
    """scores[i][j]: image of pair i against caption of pair j. For each pair the best caption of a pair that shows
    another image, and the best image other than its own, as (caption pair, score, image, score); None where none."""
    found = []
    for i, owner in enumerate(owners):
        caption = image = None
        for j, other in enumerate(owners):
            if other == owner:
                continue
            if caption is None or scores[i][j] > scores[i][caption]:
                caption = j
            if image is None or scores[j][i] > scores[image][i]:
                image = j
        if caption is None:
            found.append((None, None, None, None))
        else:
            found.append((caption, scores[i][caption], owners[image], scores[image][i]))
    return found


def pair_losses(scores, owners, margin):
    """Mean violation by the captions of other images, plus that by other images; 0 where there are none."""
    losses = []
    for i, owner in enumerate(owners):
        own = scores[i][i]
        others = [j for j, other in enumerate(owners) if other != owner]
        by_captions = sum(max(0.0, margin - own + scores[i][j]) for j in others)
        by_images = sum(max(0.0, margin - own + scores[j][i]) for j in others)
        losses.append((by_captions + by_images) / max(1, len(others)))
    return losses


# A mention: its picture, its phrase, its box, and the score of each proposal of the picture.
Box = tuple[float, float, float, float]
Mention = tuple[int, str, Box, list[float]]
# Right and lower pixels belong to the boxes.
overlap, suppressed = partial(data.overlap, last=1.0), partial(data.suppressed, last=1.0)


def rank(mention: Mention, proposals: list[Box], threshold: float) -> int | None:
    """Of the first correct proposal, wrong ones with the same score before it."""
    hits = [overlap(mention[2], box) >= threshold for box in proposals]
    order = sorted(range(len(proposals)), key=lambda place: (-mention[3][place], hits[place]))
    return next((number for number, place in enumerate(order, start=1) if hits[place]), None)


def chance(hits: list[bool], k: int) -> float:
    """The share of all ways to draw k (or all, where there are fewer) that hold a hit."""
    draws = list(combinations(hits, min(k, len(hits))))
    return sum(any(draw) for draw in draws) / len(draws)


def localize_average_precision(
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


def log_histogram(n: list[int]) -> list[tuple[int, int, int]]:
    bins = []
    low = 1
    while low <= max(n):
        end = low + 1
        while end <= low * 1.25:
            end += 1
        items = 0
        for value in n:
            if low <= value < end:
                items += 1
        if items:
            bins.append((low, end - 1, items))
        low = end
    return bins


def kind(before: bool, after: bool) -> str:
    if before:
        return "right" if after else "broken"
    return "repaired" if after else "wrong"
