"""Bootstrap by hand: a query that is drawn twice is written down twice, then everything is counted in plain
loops."""

from tests.naive import evaluate as naive

SHARES = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision", "ndcg@10": "ndcg_10"}


def gini(counts):
    """Mean difference of all pairs over twice the mean."""
    if not sum(counts):
        return 0.0
    differences = sum(abs(one - other) for one in counts for other in counts)
    return differences / (2 * len(counts) * sum(counts))


def robin_hood(counts):
    mean = sum(counts) / len(counts)
    return sum(abs(count - mean) for count in counts) / (2 * sum(counts)) if sum(counts) else 0.0


def drawn(rows, times):
    """rows: a dictionary per query; times: how often each image was drawn."""
    return [row for row in rows for _ in range(times[row["image_id"]])]


def side(rows, items):
    """Metrics of one direction and fold. rows: with the columns of ranks.parquet; items: ids of all items."""
    found = {f"r@{k}": 100.0 * sum(row[f"hit_{k}"] for row in rows) / len(rows) for k in (1, 5, 10)}
    if rows[0]["rank"] is None:
        return found
    ranks = [row["rank"] - 1 for row in rows]
    found["med_r"], found["mean_r"] = naive.median_rank(ranks), naive.mean_rank(ranks)
    found["mrr"] = 100.0 * sum(1 / row["rank"] for row in rows) / len(rows)
    for metric, column in SHARES.items():
        found[metric] = 100.0 * sum(row[column] for row in rows) / len(rows)
    place = {item: index for index, item in enumerate(items)}
    for k in (1, 5, 10):
        counts = naive.occurrence([[place[item] for item in row["top"][:k]] for row in rows], len(items))
        found[f"skew@{k}"] = naive.skewness(counts)
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


def variance_of_difference(a, draws_a, b, draws_b):
    """With seeds of their own: between the seeds of either, and what the images add to B - A."""
    (of_a, _), (of_b, _) = variance_of_mean(a, draws_a), variance_of_mean(b, draws_b)
    within = [
        mean([covariance(draws[s], draws[t]) for s in range(len(draws)) for t in range(len(draws)) if s != t])
        for draws in (draws_a, draws_b)
    ]
    across = mean([covariance(one, other) for one in draws_a for other in draws_b])
    return of_a, of_b, max(0.0, sum(within) - 2 * across)
