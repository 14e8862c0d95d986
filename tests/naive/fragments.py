"""The fragment similarities in plain loops and floats: one image and one caption at a time, one number at a time.

Regions and words are lists of vectors; weights come as nested lists under the names of the authors' state_dict.
"""

import math

from tests.naive.encoders import affine

Vector = list[float]
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


def batch_norm(weights: dict, at: str, vector: Vector) -> Vector:
    """Under running statistics, one channel a number."""
    shifted = []
    for i, x in enumerate(vector):
        scale = weights[f"{at}.weight"][i] / math.sqrt(weights[f"{at}.running_var"][i] + 1e-5)
        shifted.append((x - weights[f"{at}.running_mean"][i]) * scale + weights[f"{at}.bias"][i])
    return shifted


def pooled(weights: dict, at: str, vectors: list[Vector]) -> Vector:
    """VisualSA (with batch normalisation) or TextSA: self-attention under the mean vector."""
    local = [
        affine(weights[f"{at}.embedding_local.0.weight"], weights[f"{at}.embedding_local.0.bias"], v) for v in vectors
    ]
    whole = affine(weights[f"{at}.embedding_global.0.weight"], weights[f"{at}.embedding_global.0.bias"], mean(vectors))
    if f"{at}.embedding_local.1.weight" in weights:
        columns = zip(*local, strict=True)  # a channel is a region
        local = list(zip(*(batch_norm(weights, f"{at}.embedding_local.1", list(c)) for c in columns), strict=True))
        whole = batch_norm(weights, f"{at}.embedding_global.1", whole)
    logits = []
    for vector in local:
        common = [math.tanh(a) * math.tanh(b) for a, b in zip(vector, whole, strict=True)]
        logits += affine(weights[f"{at}.embedding_common.0.weight"], weights[f"{at}.embedding_common.0.bias"], common)
    return unit(weighted(softmax(logits), vectors))


def alignment(weights: dict, at: str, left: Vector, right: Vector) -> Vector:
    squares = [(a - b) ** 2 for a, b in zip(left, right, strict=True)]
    return unit(affine(weights[f"{at}.weight"], weights[f"{at}.bias"], squares))


def nodes(weights: dict, regions: list[Vector], words: list[Vector], temperature: float) -> list[Vector]:
    """The global alignment, then that of each word."""
    whole = alignment(
        weights, "sim_tranglo_w", pooled(weights, "v_global_w", regions), pooled(weights, "t_global_w", words)
    )
    found = attended(regions, words, "clipped_l2norm", temperature)
    return [whole] + [
        alignment(weights, "sim_tranloc_w", unit(vector), word) for vector, word in zip(found, words, strict=True)
    ]


def sgr(weights: dict, regions: list[Vector], words: list[Vector], steps: int, temperature: float) -> float:
    graph = nodes(weights, regions, words, temperature)
    for step in range(steps):
        at = f"SGR_module.{step}"
        parts = {
            name: [affine(weights[f"{at}.{name}.weight"], weights[f"{at}.{name}.bias"], node) for node in graph]
            for name in ("graph_query_w", "graph_key_w")
        }
        edges = [softmax([dot(q, k) for k in parts["graph_key_w"]]) for q in parts["graph_query_w"]]
        mixed = [weighted(edge, graph) for edge in edges]
        linear = (weights[f"{at}.sim_graph_w.weight"], weights[f"{at}.sim_graph_w.bias"])
        graph = [[max(0.0, x) for x in affine(*linear, node)] for node in mixed]
    return final(weights, graph[0])


def final(weights: dict, vector: Vector) -> float:
    return 1 / (1 + math.exp(-affine(weights["sim_eval_w.weight"], weights["sim_eval_w.bias"], vector)[0]))


def saf_logits(weights: dict, graph: list[Vector]) -> Vector:
    matrix, bias = weights["SAF_module.attn_sim_w.weight"], weights["SAF_module.attn_sim_w.bias"]
    return [affine(matrix, bias, node)[0] for node in graph]


def saf_score(weights: dict, graph: list[Vector], average: float, variance: float) -> float:
    scale = weights["SAF_module.bn.weight"][0] / math.sqrt(variance + 1e-5)
    shifted = [(x - average) * scale + weights["SAF_module.bn.bias"][0] for x in saf_logits(weights, graph)]
    gates = [1 / (1 + math.exp(-x)) for x in shifted]
    return final(weights, unit(weighted([g / (sum(gates) + EPS) for g in gates], graph)))


def saf(weights: dict, images: list, captions: list, temperature: float, training: bool) -> tuple[list, float, float]:
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
