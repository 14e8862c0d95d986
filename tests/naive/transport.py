"""Optimal transport and rematching in plain loops and floats, by the authors' recursion written out."""

import math

Matrix = list[list[float]]


def partial_plan(
    cost: Matrix, mass: float, regularisation: float, mask: bool, tolerance: float = 1e-3, max_iterations: int = 1000
) -> Matrix:
    """Log-domain Sinkhorn on the problem with a dummy row and a dummy column; the plan without them."""
    rows, columns = len(cost), len(cost[0])
    largest = max(map(max, cost))
    dear = 100 * largest
    costs = [[*row, dear] for row in cost] + [[dear] * columns + [2 * dear + largest]]
    if mask:
        for i in range(min(rows, columns)):
            costs[i][i] = math.inf
    p = [1 / rows] * rows + [1 - mass]
    q = [1 / columns] * columns + [1 - mass]
    u, v = [0.0] * (rows + 1), [0.0] * (columns + 1)
    for _ in range(max_iterations):
        before = u
        u = [
            regularisation
            * (math.log(p[i]) - _soft_max([(v[j] - costs[i][j]) / regularisation for j in range(columns + 1)]))
            for i in range(rows + 1)
        ]
        v = [
            regularisation
            * (math.log(q[j]) - _soft_max([(u[i] - costs[i][j]) / regularisation for i in range(rows + 1)]))
            for j in range(columns + 1)
        ]
        if math.sqrt(sum((new - old) ** 2 for new, old in zip(u, before, strict=True))) < tolerance:
            break
    return [[math.exp((u[i] + v[j] - costs[i][j]) / regularisation) for j in range(columns)] for i in range(rows)]


def _soft_max(values: list[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def rematch(scores: Matrix, plan: Matrix, temperature: float, kind: str) -> float:
    """Eq. 10 of L2RM and the losses its ablations put in its place; rows are images."""
    n = len(scores)
    total = 0.0
    for turned in (False, True):
        for i in range(n):
            row = [scores[j][i] if turned else scores[i][j] for j in range(n)]
            share = [max(plan[j][i] if turned else plan[i][j], 1e-10) for j in range(n)]
            pi = [value / sum(share) for value in share]
            chances = [math.exp(value / temperature) for value in row]
            p = [value / sum(chances) for value in chances]
            for a, b in zip(pi, p, strict=True):
                m = (a + b) / 2
                term = {
                    "kl": a * math.log(a / b),
                    "symmetric_kl": 0.5 * (a * math.log(a / b) + b * math.log(b / a)),
                    "infonce": -a * math.log(b),
                    "js": 0.5 * (m * math.log(m / a) + m * math.log(m / b)),
                }[kind]
                total += term / n
    return total
