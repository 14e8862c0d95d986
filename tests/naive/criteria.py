"""Criteria with a bank of their own, in plain loops. scores[q][n]: query q, item n; bank[b][n]: bank query b, item n."""

import math

from tests.naive.losses import Matrix, Vector
from tests.naive.training import Weights, linear


def column(matrix: Matrix, index: int) -> list[float]:
    return [row[index] for row in matrix]


def mean_of_largest(values: list[float], k: int) -> float:
    best = sorted(values, reverse=True)[:k]
    return math.fsum(best) / len(best)


def log_sum_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def nnn(scores: Matrix, bank: Matrix, k: int, alpha: float) -> Matrix:
    bias = [alpha * mean_of_largest(column(bank, item), k) for item in range(len(scores[0]))]
    return [[value - bias[item] for item, value in enumerate(row)] for row in scores]


def inverted_softmax(scores: Matrix, bank: Matrix, beta: float) -> Matrix:
    bias = [log_sum_exp([beta * value for value in column(bank, item)]) for item in range(len(scores[0]))]
    return [[beta * value - bias[item] for item, value in enumerate(row)] for row in scores]


def qb_norm(scores: Matrix, bank: Matrix, k: int, beta: float) -> Matrix:
    hubs = set()
    for row in bank:
        hubs |= set(sorted(range(len(row)), key=lambda item: (-row[item], item))[:k])
    corrected = inverted_softmax(scores, bank, beta)
    return [corrected[query] if row.index(max(row)) in hubs else list(row) for query, row in enumerate(scores)]


def dual_is(scores: Matrix, bank: Matrix, gallery: Matrix, beta: float, gallery_beta: float, but_itself: bool):
    """gallery[m][n]: bank item m, item n."""
    if but_itself:
        gallery = [[-math.inf if m == n else value for n, value in enumerate(row)] for m, row in enumerate(gallery)]
    parts = inverted_softmax(scores, bank, beta), inverted_softmax(scores, gallery, gallery_beta)
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)]


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


def reciprocal_ranks(row, k=60):
    """Equal scores share the best rank."""
    return [1 / (k + 1 + sum(other > score for other in row)) for score in row]


def fused(members, rule, weights):
    """members: of each model a list of rows."""
    each = [[rule(list(row)) for row in rows] for rows in zip(*members, strict=True)]
    return [weighted(weights, rows) for rows in each]


def cascade(first, second, k):
    """Of one query the items best first: the k best by ``first`` in the order of ``second``, then the others by ``first``."""
    by_first = sorted(range(len(first)), key=lambda item: (-first[item], item))
    best = sorted(by_first[:k], key=lambda item: (-second[item], item))
    return best + by_first[k:]


EPS = 1e-8


def dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def length(vector: Vector) -> float:
    return math.sqrt(dot(vector, vector))


def unit(vector: Vector) -> Vector:
    size = length(vector) + EPS
    return [x / size for x in vector]


def softmax(numbers: Vector) -> Vector:
    powers = [math.exp(x - max(numbers)) for x in numbers]
    return [x / sum(powers) for x in powers]


def mean(vectors: list[Vector]) -> Vector:
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def weighted(weights: Vector, vectors: list[Vector]) -> Vector:
    return [dot(weights, list(column)) for column in zip(*vectors, strict=True)]


def attended(context: list[Vector], queries: list[Vector], norm: str, temperature: float) -> list[Vector]:
    """For each query the mean of the context under its attention; SCAN Eq. 1 to 3, ``norm`` as raw_feature_norm."""
    rows = []
    for vector in context:  # one row of similarities to all queries, normalised over the queries
        row = [dot(vector, query) for query in queries]
        if norm.startswith("clipped"):
            row = [x if x > 0 else 0.1 * x for x in row]
        if norm.endswith("l2norm"):
            row = unit(row)
        if norm == "softmax":
            row = softmax(row)
        rows.append(row)
    found = []
    for place in range(len(queries)):
        weights = softmax([temperature * row[place] for row in rows])
        found.append(weighted(weights, context))
    return found


def scan(context: list[Vector], queries: list[Vector], aggregate: str, temperature: float, lse: float, norm: str):
    """t2i: context regions, queries words; i2t: the other way round."""
    cosines = []
    for query, vector in zip(queries, attended(context, queries, norm, temperature), strict=True):
        cosines.append(dot(query, vector) / max(length(query) * length(vector), EPS))
    if aggregate == "mean":
        return sum(cosines) / len(cosines)
    if aggregate == "lse":
        return math.log(sum(math.exp(lse * x) for x in cosines)) / lse
    return max(cosines) if aggregate == "max" else sum(cosines)


def imram(
    weights: Weights,
    way: str,
    fragments: list[Vector],
    context: list[Vector],
    steps: int,
    temperature: float,
    is_unit: bool,
) -> float:
    """way: t2i, fragments words; i2t, fragments regions. The cosine with a fragment itself, of what its memory attends to."""
    memories, total = fragments, 0.0
    for _ in range(steps):
        views = attended(context, memories, "clipped_l2norm", temperature)
        for fragment, view in zip(fragments, views, strict=True):
            total += dot(fragment, view) / max(length(fragment) * length(view), EPS) / len(fragments)
        renewed = []
        for memory, view in zip(memories, views, strict=True):
            added = [math.tanh(x) for x in linear(weights, f"linear_{way}", memory + view)]
            gates = [1 / (1 + math.exp(-x)) for x in linear(weights, f"gate_{way}", memory + view)]
            mixed = [m * g + a * (1 - g) for m, a, g in zip(memory, added, gates, strict=True)]
            renewed.append(unit(mixed) if is_unit else mixed)
        memories = renewed
    return total


def batch_norm(weights: Weights, at: str, vector: Vector) -> Vector:
    """Under running statistics, one channel a number."""
    shifted = []
    for i, x in enumerate(vector):
        scale = weights[f"{at}.weight"][i] / math.sqrt(weights[f"{at}.running_var"][i] + 1e-5)
        shifted.append((x - weights[f"{at}.running_mean"][i]) * scale + weights[f"{at}.bias"][i])
    return shifted


def pooled(weights: Weights, at: str, vectors: list[Vector]) -> Vector:
    """VisualSA (with batch normalisation) or TextSA: self-attention under the mean vector."""
    local = [linear(weights, f"{at}.embedding_local.0", vector) for vector in vectors]
    whole = linear(weights, f"{at}.embedding_global.0", mean(vectors))
    if f"{at}.embedding_local.1.weight" in weights:
        columns = zip(*local, strict=True)  # a channel is a region
        local = list(zip(*(batch_norm(weights, f"{at}.embedding_local.1", list(c)) for c in columns), strict=True))
        whole = batch_norm(weights, f"{at}.embedding_global.1", whole)
    logits = []
    for vector in local:
        common = [math.tanh(a) * math.tanh(b) for a, b in zip(vector, whole, strict=True)]
        logits += linear(weights, f"{at}.embedding_common.0", common)
    return unit(weighted(softmax(logits), vectors))


def alignment(weights: Weights, at: str, left: Vector, right: Vector) -> Vector:
    squares = [(a - b) ** 2 for a, b in zip(left, right, strict=True)]
    return unit(linear(weights, at, squares))


def nodes(weights: Weights, regions: list[Vector], words: list[Vector], temperature: float) -> list[Vector]:
    """The global alignment, then that of each word."""
    sides = pooled(weights, "v_global_w", regions), pooled(weights, "t_global_w", words)
    pairs = zip(attended(regions, words, "clipped_l2norm", temperature), words, strict=True)
    local = [alignment(weights, "sim_tranloc_w", unit(vector), word) for vector, word in pairs]
    return [alignment(weights, "sim_tranglo_w", *sides), *local]


def sgr(weights: Weights, regions: list[Vector], words: list[Vector], steps: int, temperature: float) -> float:
    graph = nodes(weights, regions, words, temperature)
    for step in range(steps):
        at = f"SGR_module.{step}"
        queries, keys = ([linear(weights, f"{at}.graph_{part}_w", node) for node in graph] for part in ("query", "key"))
        mixed = [weighted(softmax([dot(q, k) for k in keys]), graph) for q in queries]
        graph = [[max(0.0, x) for x in linear(weights, f"{at}.sim_graph_w", node)] for node in mixed]
    return final(weights, graph[0])


def final(weights: Weights, vector: Vector) -> float:
    return 1 / (1 + math.exp(-linear(weights, "sim_eval_w", vector)[0]))


def saf_logits(weights: Weights, graph: list[Vector]) -> Vector:
    return [linear(weights, "SAF_module.attn_sim_w", node)[0] for node in graph]


def saf_score(weights: Weights, graph: list[Vector], average: float, variance: float) -> float:
    scale = weights["SAF_module.bn.weight"][0] / math.sqrt(variance + 1e-5)
    shifted = [(x - average) * scale + weights["SAF_module.bn.bias"][0] for x in saf_logits(weights, graph)]
    gates = [1 / (1 + math.exp(-x)) for x in shifted]
    return final(weights, unit(weighted([g / (sum(gates) + EPS) for g in gates], graph)))


def saf(
    weights: Weights, images: list, captions: list, temperature: float, training: bool
) -> tuple[list, float, float]:
    """Scores (images, captions), and the running mean and variance after them.

    In training each caption in turn takes the statistics of its nodes over all images, as a loop over captions does.
    """
    run = [weights["SAF_module.bn.running_mean"][0], weights["SAF_module.bn.running_var"][0]]
    columns = []
    for words in captions:
        graphs = [nodes(weights, regions, words, temperature) for regions in images]
        average, variance = run
        if training:
            logits = [x for graph in graphs for x in saf_logits(weights, graph)]
            average = sum(logits) / len(logits)
            squares = sum((x - average) ** 2 for x in logits)
            variance = squares / len(logits)
            run = [0.9 * run[0] + 0.1 * average, 0.9 * run[1] + 0.1 * squares / max(1, len(logits) - 1)]
        columns.append([saf_score(weights, graph, average, variance) for graph in graphs])
    return [list(row) for row in zip(*columns, strict=True)], *run
