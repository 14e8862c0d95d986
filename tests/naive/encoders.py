"""The encoders in plain loops and floats, one row at a time: what the vectorised ones are compared with.

Weights come as nested lists under the names of the encoder's state_dict.
"""

import math

Vector = list[float]


def affine(matrix: list[Vector], bias: Vector, vector: Vector) -> Vector:
    return [b + sum(w * x for w, x in zip(row, vector, strict=True)) for row, b in zip(matrix, bias, strict=True)]


def unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else list(vector)


def gru_cell(weights: dict[str, list], at: str, inputs: Vector, state: Vector) -> Vector:
    """One step, gates in the order r, z, n; ``at``: the end of the weights' names, as ``l0`` or ``l1_reverse``."""
    x = affine(weights[f"rnn.weight_ih_{at}"], weights[f"rnn.bias_ih_{at}"], inputs)
    h = affine(weights[f"rnn.weight_hh_{at}"], weights[f"rnn.bias_hh_{at}"], state)
    size, new = len(state), []
    for i, old in enumerate(state):
        r = 1 / (1 + math.exp(-(x[i] + h[i])))
        z = 1 / (1 + math.exp(-(x[size + i] + h[size + i])))
        n = math.tanh(x[2 * size + i] + r * h[2 * size + i])
        new.append((1 - z) * n + z * old)
    return new


def gru_states(weights: dict[str, list], tokens: list[int], layers: int, bidirectional: bool) -> dict[str, list]:
    """``forward`` and ``backward``: the last layer's state after each token, by the token's place; backward may be None."""
    inputs = [weights["embed.weight"][token] for token in tokens]
    for layer in range(layers):
        forward = _run(weights, f"l{layer}", inputs)
        backward = None
        if bidirectional:
            backward = _run(weights, f"l{layer}_reverse", inputs[::-1])[::-1]
        inputs = [f + b for f, b in zip(forward, backward, strict=True)] if backward else forward
    return {"forward": forward, "backward": backward}


def _run(weights: dict[str, list], at: str, inputs: list[Vector]) -> list[Vector]:
    state, states = [0.0] * len(weights[f"rnn.weight_hh_{at}"][0]), []
    for vector in inputs:
        state = gru_cell(weights, at, vector, state)
        states.append(state)
    return states


def caption(
    weights: dict[str, list], tokens: list[int], pooling: str, layers: int = 1, bidirectional: bool = False
) -> Vector:
    """A caption's vector at unit length; ``fc.weight`` among the weights is the projection after pooling."""
    states = gru_states(weights, tokens, layers, bidirectional)
    forward, backward = states["forward"], states["backward"]
    words = _averaged(forward, backward)
    if pooling == "last":
        pooled = forward[-1] if backward is None else _averaged([forward[-1]], [backward[0]])[0]
    elif pooling == "mean":
        pooled = [sum(column) / len(words) for column in zip(*words, strict=True)]
    elif pooling == "gpo":
        pooled = gpo({name.removeprefix("gpo."): values for name, values in weights.items()}, words)
    else:
        pooled = [max(column) for column in zip(*words, strict=True)]
    if "fc.weight" in weights:
        pooled = affine(weights["fc.weight"], weights["fc.bias"], pooled)
    return unit(pooled)


def gpo(weights: dict[str, list], rows: list[Vector]) -> Vector:
    """Each dimension's numbers from the largest to the smallest, times the weight of their place."""
    size = len(weights["gru.weight_ih_l0"][0])
    inputs = []
    for place in range(len(rows)):
        angles = [place / 10000 ** (2 * (i // 2) / size) for i in range(size)]
        inputs.append([math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)])
    named = {name.replace("gru.", "rnn."): values for name, values in weights.items()}
    states = _averaged(_run(named, "l0", inputs), _run(named, "l0_reverse", inputs[::-1])[::-1])
    chances = [math.exp(sum(w * x for w, x in zip(weights["linear.weight"][0], s, strict=True)) / 0.1) for s in states]
    ordered = [sorted(column, reverse=True) for column in zip(*rows, strict=True)]
    return [sum(c * x for c, x in zip(chances, column, strict=True)) / sum(chances) for column in ordered]


def pooled(weights: dict[str, list], features: list[Vector], pooling: str) -> Vector:
    """The linear layer on every region, one vector of them all, unit length."""
    rows = [affine(weights["fc.weight"], weights["fc.bias"], region) for region in features]
    if pooling == "gpo":
        return unit(gpo({name.removeprefix("gpo."): values for name, values in weights.items()}, rows))
    reduce = max if pooling == "max" else lambda column: sum(column) / len(column)
    return unit([reduce(column) for column in zip(*rows, strict=True)])


def words(weights: dict[str, list], tokens: list[int], layers: int = 1, bidirectional: bool = False) -> list[Vector]:
    """Each token's vector: its state over its length plus 1e-8."""
    states = gru_states(weights, tokens, layers, bidirectional)
    rows = _averaged(states["forward"], states["backward"])
    return [[x / (math.sqrt(sum(y * y for y in row)) + 1e-8) for x in row] for row in rows]


def _averaged(forward: list[Vector], backward: list[Vector] | None) -> list[Vector]:
    if backward is None:
        return forward
    return [
        [(f + b) / 2 for f, b in zip(one, other, strict=True)] for one, other in zip(forward, backward, strict=True)
    ]


def two_branch(
    weights: dict[str, list], rows: list[Vector], layers: int, batch_norm: str, training: bool
) -> list[Vector]:
    """``layers`` linear layers with ReLU between them, no dropout; batch normalisation last, first or none."""
    for place in range(1, layers + 1):
        inside = "" if place == layers else ".0"
        matrix, bias = weights[f"fc{place}{inside}.weight"], weights[f"fc{place}{inside}.bias"]
        rows = [affine(matrix, bias, row) for row in rows]
        if place < layers:
            if batch_norm == "first":
                rows = _batch_norm(weights, f"fc{place}.1", rows, training)
            rows = [[max(0.0, x) for x in row] for row in rows]
    if batch_norm == "last":
        rows = _batch_norm(weights, "bn", rows, training)
    return [unit(row) for row in rows]


def _batch_norm(weights: dict[str, list], at: str, rows: list[Vector], training: bool) -> list[Vector]:
    columns = []
    for i, column in enumerate(zip(*rows, strict=True)):
        mean, variance = weights[f"{at}.running_mean"][i], weights[f"{at}.running_var"][i]
        if training:
            mean = sum(column) / len(column)
            variance = sum((x - mean) ** 2 for x in column) / len(column)
        scale, shift = weights[f"{at}.weight"][i], weights[f"{at}.bias"][i]
        columns.append([(x - mean) / math.sqrt(variance + 1e-5) * scale + shift for x in column])
    return [list(row) for row in zip(*columns, strict=True)]


def regions(weights: dict[str, list], features: list[Vector], normalised: bool = True) -> list[Vector]:
    """Each region's vector: the linear layer's output over its length plus 1e-8."""
    found = []
    for region in features:
        vector = affine(weights["fc.weight"], weights["fc.bias"], region)
        length = math.sqrt(sum(x * x for x in vector)) + 1e-8 if normalised else 1.0
        found.append([x / length for x in vector])
    return found


def residual(weights: dict[str, list], vector: Vector) -> Vector:
    """One layer plus a branch of two, at unit length."""
    hidden = [max(0.0, x) for x in affine(weights["mlp.0.weight"], weights["mlp.0.bias"], vector)]
    added = affine(weights["mlp.3.weight"], weights["mlp.3.bias"], hidden)
    return unit([a + b for a, b in zip(affine(weights["fc.weight"], weights["fc.bias"], vector), added, strict=True)])
