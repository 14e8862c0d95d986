"""Labels and soft margins of NCR in plain loops and floats."""

import math

Matrix = list[list[float]]


def predicted(scores: Matrix, margin: float) -> list[float]:
    """How well each pair fits, against the mean of the ``n // 10 + 1`` best of the batch."""
    n = len(scores)
    fits = []
    for i in range(n):
        texts = [max(0.0, margin - scores[i][i] + scores[i][t]) for t in range(n) if t != i]
        images = [max(0.0, margin - scores[i][i] + scores[j][i]) for j in range(n) if j != i]
        fit = margin - (sum(texts) / n + sum(images) / n) / 2
        fits.append(min(max(fit, 0.0), margin))
    best = sorted(fits, reverse=True)[: n // 10 + 1]
    mean = sum(best) / len(best)
    return [min(max(fit / mean, 0.0), 1.0) if mean > 0 else 0.0 for fit in fits]


def refined(clean: list[float], prediction: list[float], code: bool) -> list[float]:
    """``code``: the prediction of the first pair for all."""
    return [w * 1.0 + (1.0 - w) * (prediction[0] if code else p) for w, p in zip(clean, prediction, strict=True)]


def soft_margin(label: float, margin: float, shape: str) -> float:
    if shape == "linear":
        return margin * label
    if shape == "sin":
        return margin * (math.sin(math.pi * label - math.pi / 2) / 2 + 1 / 2)
    return margin * (math.pow(10, label) - 1) / 9


def soft_triplets(scores: Matrix, margins: list[float], code: bool) -> list[float]:
    """The hardest negatives of each pair; ``code``: every cell has the margin of its row."""
    n = len(scores)
    found = []
    for i in range(n):
        texts = [max(0.0, margins[i] - scores[i][i] + scores[i][t]) for t in range(n) if t != i]
        images = [max(0.0, margins[j if code else i] - scores[i][i] + scores[j][i]) for j in range(n) if j != i]
        found.append(max(texts) + max(images))
    return found
