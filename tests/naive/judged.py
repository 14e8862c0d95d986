"""Graded rankings, plausible matches and agreement in plain loops."""

import math


def ranking(row, grades, ties):
    """Items in order; of the same score the worst first (pessimistic) or the best (optimistic). grades: by item."""
    sign = 1 if ties == "pessimistic" else -1
    return sorted(range(len(row)), key=lambda item: (-row[item], sign * grades.get(item, 0.0)))


def ndcg(row, grades, k, ties="pessimistic"):
    order = ranking(row, grades, ties)
    gained = sum(grades.get(item, 0.0) / math.log2(place + 2) for place, item in enumerate(order[:k]))
    ideal = sorted(grades.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(place + 2) for place, grade in enumerate(ideal))


def pmrp(row, own, others, most, ties="pessimistic"):
    """R-precision of one query. own: its labels, a set; others: those of each item, sets; most: labels that may differ."""
    right = {item for item, labels in enumerate(others) if len(own ^ labels) <= most}
    if not right:
        return None
    order = ranking(row, dict.fromkeys(right, 1.0), ties)
    return sum(1 for item in order[: len(right)] if item in right) / len(right)


def tau_b(xs, ys):
    agreed, pairs_x, pairs_y, _ = _pairs(xs, ys)
    return agreed / math.sqrt(pairs_x * pairs_y)


def tau_c(xs, ys):
    """Stuart's: 2 (P - Q) over n^2 (m - 1) / m, m the smaller number of different values."""
    agreed, _, _, n = _pairs(xs, ys)
    m = min(len(set(xs)), len(set(ys)))
    return 2 * agreed / (n * n * (m - 1) / m)


def _pairs(xs, ys):
    """Concordant pairs less discordant ones; pairs that differ in x, and in y; n."""
    agreed = pairs_x = pairs_y = 0
    for i in range(len(xs)):
        for j in range(i):
            x, y = (xs[i] > xs[j]) - (xs[i] < xs[j]), (ys[i] > ys[j]) - (ys[i] < ys[j])
            agreed += x * y
            pairs_x += x != 0
            pairs_y += y != 0
    return agreed, pairs_x, pairs_y, len(xs)
