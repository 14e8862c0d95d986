"""The losses that take pairs for matched more or less, CRCL and DECL, in plain loops and floats."""

import math

from scipy.special import digamma

from tests.naive.losses import Cells, Matrix, diagonal


def crcl(
    scores: Matrix, tau: float, weight: float, targets: list[float] | None = None, same: Cells | None = None
) -> list[float]:
    """CRCL's cross entropy of each pair times its target, and the cost of its negatives."""
    n = len(scores)
    same = same or diagonal(n)
    shares = []
    for i in range(n):
        y = 1.0 if targets is None else targets[i]
        share = 0.0
        for side in ("texts", "images"):
            cells = {}
            for t in range(n):
                at = (i, t) if side == "texts" else (t, i)
                if t == i or not same[at[0]][at[1]]:
                    cells[t] = math.exp(scores[at[0]][at[1]] / tau)
            total = sum(cells.values())
            costs = {t: math.tan(cell / total) for t, cell in cells.items()}
            negatives = sum(cost for t, cost in costs.items() if t != i)
            share += -y * math.log(cells[i] / total) + weight * negatives / sum(costs.values()) ** (1 - y)
        shares.append(share)
    return shares


def dirichlet_from_uniform(alpha: list[float]) -> float:
    """KL(Dir(alpha), Dir(1))."""
    total = sum(alpha)
    found = math.lgamma(total) - math.lgamma(len(alpha))
    for one in alpha:
        found += (one - 1) * (digamma(one) - digamma(total)) - math.lgamma(one)
    return float(found)


def evidential(evidence: list[float], labels: list[float], weight: float) -> float:
    """DECL's loss of a row: the squared error expected under Dir(evidence + 1), and what takes evidence from the rest."""
    alpha = [e + 1 for e in evidence]
    total = sum(alpha)
    found = 0.0
    for a, label in zip(alpha, labels, strict=True):
        found += (label - a / total) ** 2 + a * (total - a) / (total**2 * (total + 1))
    wrong = [e * (1 - label) + 1 for e, label in zip(evidence, labels, strict=True)]
    return found + weight * dirichlet_from_uniform(wrong)


def decl(
    scores: Matrix, options: dict[str, float], targets: list[float] | None = None, same: Cells | None = None
) -> list[float]:
    """Share of each pair in DECL's loss, the mean of the evidential part and the sum of the hinge."""
    n, margin = len(scores), options["margin"]
    same = same or diagonal(n)
    bound = [[math.tanh(s) for s in row] for row in scores]
    count = min(int(options["hardest"]), n - 1)
    shares = []
    for i in range(n):
        y = 1.0 if targets is None else targets[i]
        texts = [t for t in range(n) if t == i or not same[i][t]]
        images = [j for j in range(n) if j == i or not same[j][i]]
        sides = [{t: bound[i][t] for t in texts}, {j: bound[j][i] for j in images}]
        share = 0.0
        for side in sides:
            evidence = [math.exp(s / options["tau"]) for s in side.values()]
            share += evidential(evidence, [y if k == i else 0.0 for k in side], options["lambda2"]) / n
            over = sorted((max(0.0, margin - bound[i][i] + s) for k, s in side.items() if k != i), reverse=True)
            share += options["lambda1"] * y * sum(over[:count]) / count
        shares.append(share)
    return shares
