"""The losses in plain loops and floats: what the vectorised ones are compared with."""

import math


def hinge(scores: list[list[float]], margin: float, hardest: bool) -> list[float]:
    """Share of each pair: its own violations over all texts and over all images, summed or the largest of each."""
    n = len(scores)
    reduce = max if hardest else sum
    shares = []
    for i in range(n):
        texts = [max(0.0, margin - scores[i][i] + scores[i][t]) for t in range(n) if t != i]
        images = [max(0.0, margin - scores[i][i] + scores[j][i]) for j in range(n) if j != i]
        shares.append(reduce(texts) + reduce(images))
    return shares


def hal(scores: list[list[float]], gamma: float, eps: float, keep_diagonal: bool) -> list[float]:
    """Eq. 7 of HAL with W = 1 for each pair; ``keep_diagonal`` adds the authors' zeroed diagonal to the inner sums."""
    n = len(scores)
    shares = []
    for i in range(n):
        images = texts = math.exp(-gamma * eps) if keep_diagonal else 0.0
        for j in range(n):
            if j != i:
                images += math.exp(gamma * (scores[j][i] - eps))
                texts += math.exp(gamma * (scores[i][j] - eps))
        positive = math.log(1 + max(0.0, scores[i][i]))
        shares.append(math.log(1 + images) / gamma + math.log(1 + texts) / gamma - positive)
    return shares
