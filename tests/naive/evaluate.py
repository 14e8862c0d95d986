"""Ranking, rescoring and matching in plain loops and floats: slow, literal, and checked by eye."""

import itertools
import math


def best_rank(row, correct, ties):
    """0-based rank of the best correct item. ties: where the wrong items with exactly its score go."""
    best = max(row[item] for item in correct)
    above = sum(1 for score in row if score > best)
    tied = sum(1 for item, score in enumerate(row) if score == best and item not in correct)
    return above + {"optimistic": 0.0, "average": tied / 2, "pessimistic": float(tied)}[ties]


def positions(row, correct, ties):
    """0-based places of all correct items, best first. ties: where the wrong items with their score go."""
    found = []
    for item in sorted(correct, key=lambda item: -row[item]):
        above = sum(1 for score in row if score > row[item])
        tied = sum(1 for other, score in enumerate(row) if score == row[item] and other not in correct)
        before = {"optimistic": 0.0, "average": tied / 2, "pessimistic": float(tied)}[ties]
        place = above + before
        while place in found:
            place += 1
        found.append(place)
    return found


def reciprocal_rank(places):
    return 1 / (min(places) + 1)


def average_precision(places):
    precisions = [sum(1 for other in places if other <= place) / (place + 1) for place in places]
    return sum(precisions) / len(places)


def average_precision_at_r(places):
    total = 0.0
    for place in places:
        if place < len(places):
            total += sum(1 for other in places if other <= place) / (place + 1)
    return total / len(places)


def r_precision(places):
    return sum(1 for place in places if place < len(places)) / len(places)


def ndcg(places, k):
    gained = sum(1 / math.log2(place + 2) for place in places if place < k)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(places), k)))


def top(row, k):
    """Indexes of the k best items, best first; equal scores in the order of their index."""
    return sorted(range(len(row)), key=lambda item: (-row[item], item))[:k]


def recall(ranks, k):
    return 100.0 * sum(1 for rank in ranks if rank < k) / len(ranks)


def median_rank(ranks):
    ordered = sorted(ranks)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return math.floor(median) + 1


def mean_rank(ranks):
    return sum(ranks) / len(ranks) + 1


def occurrence(tops, items):
    counts = [0] * items
    for chosen in tops:
        for item in chosen:
            counts[item] += 1
    return counts


def skewness(counts):
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    if variance == 0:
        return math.nan
    return sum((count - mean) ** 3 for count in counts) / len(counts) / variance**1.5


def robin_hood(counts):
    total = sum(counts)
    mean = total / len(counts)
    return sum(abs(count - mean) for count in counts) / 2 / total if total else 0.0


def gini(counts):
    """Over all pairs of items, as scikit-hubness has it."""
    differences = sum(abs(count - other) for count in counts for other in counts)
    return differences / (2 * len(counts) * sum(counts)) if sum(counts) else 0.0


def anti_hubs(counts):
    return sum(1 for count in counts if count == 0) / len(counts)


def hub_share(counts):
    to_hubs = 0
    for value in counts:
        if value * len(counts) >= 2 * sum(counts):
            to_hubs += value
    return to_hubs / sum(counts) if sum(counts) else 0.0


def inverted_softmax(scores, beta, include_query):
    """The logarithm of Eq. 5, by exact summation of shifted exponentials."""
    rescored = [[0.0] * len(scores[0]) for _ in scores]
    for query, row in enumerate(scores):
        for item, score in enumerate(row):
            bank = [other[item] for index, other in enumerate(scores) if include_query or index != query]
            highest = max(bank)
            total = math.fsum(math.exp(beta * (value - highest)) for value in bank)
            rescored[query][item] = beta * (score - highest) - math.log(total)
    return rescored


def _mean_of_nearest(values, k):
    nearest = sorted(values, reverse=True)[:k]
    return math.fsum(nearest) / len(nearest)


def csls(scores, k, two_sided):
    columns = list(zip(*scores, strict=True))
    of_item = [_mean_of_nearest(column, k) for column in columns]
    of_query = [_mean_of_nearest(row, k) if two_sided else 0.0 for row in scores]
    return [
        [2 * score - of_query[query] - of_item[item] for item, score in enumerate(row)]
        for query, row in enumerate(scores)
    ]


def greedy(scores, k, lam, mode):
    """Algorithm 1: sort every pair, walk down the list, accept while both quotas last."""
    rows, columns = len(scores), len(scores[0])
    quota = round(lam * k * (max(1, rows / columns) if mode == "rows" else 1))
    limit = min(rows, columns) * k if mode == "literal" else rows * k
    pairs = [(-scores[row][column], row * columns + column) for row in range(rows) for column in range(columns)]
    row_used, column_used, accepted = [0] * rows, [0] * columns, []
    for _, flat in sorted(pairs):
        if len(accepted) == limit:
            break
        row, column = divmod(flat, columns)
        if row_used[row] < k and column_used[column] < quota:
            row_used[row] += 1
            column_used[column] += 1
            accepted.append((row, column))
    return accepted


def fewest_answered(scores, pairs, correct):
    """How many queries a matching answers, by the worst of its choices among equal scores. pairs: (row, column); correct: of each
    query the columns that are right. Queries with equal rows change places in every way."""
    held = [[scores[row][column] for asking, column in pairs if asking == row] for row in range(len(scores))]

    def answers(query, place):
        row = scores[query]
        for level in {row[column] for column in correct[query]}:
            wrong = sum(1 for column, score in enumerate(row) if score == level and column not in correct[query])
            if held[place].count(level) > wrong:
                return True
        return False

    total = 0
    for row in {tuple(row) for row in scores}:
        group = [query for query, other in enumerate(scores) if tuple(other) == row]
        total += min(
            sum(answers(query, place) for query, place in zip(group, places, strict=True))
            for places in itertools.permutations(group)
        )
    return total


def heaviest(scores, k, quota):
    """Size and sum of the heaviest of the largest matchings: every way to give each row up to k columns is tried."""
    columns = range(len(scores[0]))
    choices = [chosen for size in range(k + 1) for chosen in itertools.combinations(columns, size)]
    best = (0, 0.0)
    for rows in itertools.product(choices, repeat=len(scores)):
        used = [sum(1 for chosen in rows if column in chosen) for column in columns]
        if max(used) <= quota:
            total = math.fsum(scores[row][column] for row, chosen in enumerate(rows) for column in chosen)
            best = max(best, (sum(used), total))
    return best


def matched_recall(pairs, correct):
    """Share of queries with a correct item among those matched to them, in percent."""
    found = {row for row, column in pairs if column in correct[row]}
    return 100.0 * len(found) / len(correct)
