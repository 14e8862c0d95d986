"""Criteria with a bank of their own, in plain loops. scores[q][n]: query q, item n; bank[b][n]: bank query b, item n."""

import math

Matrix = list[list[float]]


def column(matrix: Matrix, index: int) -> list[float]:
    return [row[index] for row in matrix]


def mean_of_largest(values: list[float], k: int) -> float:
    best = sorted(values, reverse=True)[:k]
    return sum(best) / len(best)


def log_sum_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def nnn(scores: Matrix, bank: Matrix, k: int, alpha: float) -> Matrix:
    bias = [alpha * mean_of_largest(column(bank, item), k) for item in range(len(scores[0]))]
    return [[value - bias[item] for item, value in enumerate(row)] for row in scores]


def csls(scores: Matrix, bank: Matrix, k: int) -> Matrix:
    of_items = [mean_of_largest(column(bank, item), k) for item in range(len(scores[0]))]
    return [[2 * value - mean_of_largest(row, k) - of_items[item] for item, value in enumerate(row)] for row in scores]


def inverted_softmax(scores: Matrix, bank: Matrix, beta: float) -> Matrix:
    bias = [log_sum_exp([beta * value for value in column(bank, item)]) for item in range(len(scores[0]))]
    return [[beta * value - bias[item] for item, value in enumerate(row)] for row in scores]


def qb_norm(scores: Matrix, bank: Matrix, k: int, beta: float) -> Matrix:
    hubs = set()
    for row in bank:
        hubs |= set(sorted(range(len(row)), key=lambda item: (-row[item], item))[:k])
    corrected = inverted_softmax(scores, bank, beta)
    return [corrected[query] if row.index(max(row)) in hubs else list(row) for query, row in enumerate(scores)]


def dual_is(
    scores: Matrix, bank: Matrix, gallery: Matrix, beta: float, gallery_beta: float, but_itself: bool
) -> Matrix:
    """gallery[m][n]: bank item m, item n."""
    first = inverted_softmax(scores, bank, beta)
    kept = [
        [value for m, value in enumerate(column(gallery, item)) if not (but_itself and m == item)]
        for item in range(len(scores[0]))
    ]
    bias = [log_sum_exp([gallery_beta * value for value in values]) for values in kept]
    return [
        [value + gallery_beta * scores[query][item] - bias[item] for item, value in enumerate(row)]
        for query, row in enumerate(first)
    ]


def sinkhorn(bank: Matrix, tau: float, iterations: int) -> tuple[list[float], list[float]]:
    """Potentials of queries and items after so many updates of the items', the queries' starting at 0."""
    queries, items = [0.0] * len(bank), [0.0] * len(bank[0])
    for iteration in range(iterations):
        if iteration:
            queries = [
                -math.log(len(bank)) - log_sum_exp([v / tau + items[n] for n, v in enumerate(row)]) for row in bank
            ]
        items = [
            -math.log(len(bank[0])) - log_sum_exp([row[n] / tau + queries[q] for q, row in enumerate(bank)])
            for n in range(len(bank[0]))
        ]
    return queries, items


def mutual_proximity(scores: Matrix, bank: Matrix) -> Matrix:
    def sure(value: float, others: list[float]) -> float:
        mean = math.fsum(others) / len(others)
        deviation = math.sqrt(math.fsum((other - mean) ** 2 for other in others) / len(others))
        z = (value - mean) / deviation if deviation else 0.0
        return math.log(math.erfc(-z / math.sqrt(2)) / 2)

    return [[sure(value, row) + sure(value, column(bank, item)) for item, value in enumerate(row)] for row in scores]
