"""Reliability and isotonic regression, one pair at a time."""

from collections.abc import Sequence


def expected_calibration_error(probabilities: Sequence[float], matched: Sequence[bool], bins: int = 10) -> float:
    total = 0.0
    for place in range(bins):
        low, high = place / bins, (place + 1) / bins
        inside = [
            (probability, event)
            for probability, event in zip(probabilities, matched, strict=True)
            if low <= probability < high or (place == bins - 1 and probability == 1)
        ]
        if inside:
            mean = sum(probability for probability, _ in inside) / len(inside)
            share = sum(event for _, event in inside) / len(inside)
            total += len(inside) / len(probabilities) * abs(mean - share)
    return total


def isotonic(scores: Sequence[float], matched: Sequence[bool]) -> dict[float, float]:
    """By score: pool adjacent violators, literally."""
    blocks: list[list] = []
    for score in sorted(set(scores)):
        events = [event for other, event in zip(scores, matched, strict=True) if other == score]
        blocks.append([[score], sum(events), len(events)])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return {score: hits / count for own, hits, count in blocks for score in own}


def candidates(
    scores: Sequence[Sequence[float]], correct: Sequence[set[int]], k: int = 10
) -> list[tuple[float, bool, int]]:
    """(score, matched, query) of the best k items of each query with a correct one."""
    found, number = [], 0
    for row, right in zip(scores, correct, strict=True):
        if right:
            best = sorted(range(len(row)), key=lambda item: (-row[item], item))[:k]
            found += [(row[item], item in right, number) for item in best]
            number += 1
    return found
