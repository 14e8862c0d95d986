"""Ranking, rescoring and matching in plain loops and floats: slow, literal, and checked by eye."""

import itertools
import math

from tests.naive.criteria import mean_of_largest


def best_rank(row, correct, ties):
    """0-based rank of the best correct item. ties: where the wrong items with exactly its score go."""
    return _rank(row, max(row[item] for item in correct), correct, ties)


def _rank(row, value, correct, ties):
    above = sum(1 for score in row if score > value)
    tied = sum(1 for item, score in enumerate(row) if score == value and item not in correct)
    return above + {"optimistic": 0.0, "pessimistic": float(tied)}[ties]


def positions(row, correct, ties):
    """0-based places of all correct items, best first. ties: where the wrong items with their score go."""
    found = []
    for item in sorted(correct, key=lambda item: -row[item]):
        place = _rank(row, row[item], correct, ties)
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


def csls(scores, k, two_sided):
    columns = list(zip(*scores, strict=True))
    of_item = [mean_of_largest(column, k) for column in columns]
    of_query = [mean_of_largest(row, k) if two_sided else 0.0 for row in scores]
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


def order(scores, grades, above, ties="pessimistic"):
    """Items of one query, best first; of the same score the wrong ones first and then the worse ones, or the other way round.
    scores: by item; grades: by judged item."""

    def key(item):
        grade = grades.get(item, 0.0)
        return (grade > above, grade)

    sign = 1 if ties == "pessimistic" else -1
    return sorted(scores, key=lambda item: (-scores[item], *(sign * part for part in key(item))))


def places(scores, grades, above, ties="pessimistic"):
    """Of the correct items; infinite for those that are not in the list."""
    listed = order(scores, grades, above, ties)
    found = [place for place, item in enumerate(listed) if grades.get(item, 0.0) > above]
    return found + [math.inf] * (sum(grade > above for grade in grades.values()) - len(found))


def graded_ndcg(scores, grades, k, ties="pessimistic"):
    listed = order(scores, grades, 0.0, ties)[:k]
    gained = sum(grades.get(item, 0.0) / math.log2(place + 2) for place, item in enumerate(listed))
    ideal = sorted(grades.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(place + 2) for place, grade in enumerate(ideal))


def judged_ndcg(row, grades, k, ties="pessimistic"):
    return graded_ndcg(dict(enumerate(row)), grades, k, ties)


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


SHARES = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision", "ndcg@10": "ndcg_10"}


def drawn(rows, times):
    """rows: a dictionary per query; times: how often each image was drawn."""
    return [row for row in rows for _ in range(times[row["image_id"]])]


def side(rows, items):
    """Metrics of one direction and fold. rows: with the columns of ranks.parquet; items: ids of all items."""
    found = {f"r@{k}": 100.0 * sum(row[f"hit_{k}"] for row in rows) / len(rows) for k in (1, 5, 10)}
    if rows[0]["rank"] is None:
        return found
    ranks = [row["rank"] - 1 for row in rows]
    found["med_r"], found["mean_r"] = median_rank(ranks), mean_rank(ranks)
    found["mrr"] = 100.0 * sum(1 / row["rank"] for row in rows) / len(rows)
    for metric, column in SHARES.items():
        found[metric] = 100.0 * sum(row[column] for row in rows) / len(rows)
    place = {item: index for index, item in enumerate(items)}
    for k in (1, 5, 10):
        counts = occurrence([[place[item] for item in row["top"][:k]] for row in rows], len(items))
        found[f"skew@{k}"] = skewness(counts)
    found["robin_hood@10"], found["gini@10"] = robin_hood(counts), gini(counts)
    found["anti_hubs@10"] = 100.0 * counts.count(0) / len(counts)
    found["largest_hub@10"] = max(counts)
    return found


def measure(rows, items, times):
    """As metrics.json: the mean over folds of each direction's metrics, and the two sums. rows: all of
    ranks.parquet; items: by (direction, fold); times: by fold, then image."""
    found = {}
    for direction in sorted({row["direction"] for row in rows}):
        of_folds = []
        for fold in sorted({row["fold"] for row in rows}):
            here = [row for row in rows if (row["direction"], row["fold"]) == (direction, fold)]
            of_folds.append(side(drawn(here, times[fold]), items[direction, fold]))
        found[direction] = {name: sum(one[name] for one in of_folds) / len(of_folds) for name in of_folds[0]}
    sides = list(found.values())
    found["rsum"] = sum(one[f"r@{k}"] for one in sides for k in (1, 5, 10))
    if all("skew@1" in one for one in sides):
        found["hs_sum"] = sum(one[f"skew@{k}"] for one in sides for k in (1, 5, 10))
    return found


def mean(values):
    return sum(values) / len(values)


def covariance(one, other):
    """Unbiased, draw by draw."""
    return sum((a - mean(one)) * (b - mean(other)) for a, b in zip(one, other, strict=True)) / (len(one) - 1)


def variance_of_mean(values, draws):
    """Of one figure over seeds: between the seeds, and the mean covariance of two different seeds over the draws."""
    seeds = range(len(values))
    pairs = [covariance(draws[s], draws[t]) for s in seeds for t in seeds if s != t]
    return covariance(values, values) / len(values), max(0.0, mean(pairs))
