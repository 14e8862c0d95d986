"""The encoders in plain loops and floats, one row at a time: what the vectorised ones are compared with.

Weights come as nested lists under the names of the encoder's state_dict.
"""

import math

import numpy as np
from scipy.linalg import eigh
from scipy.special import digamma

from tests.naive.losses import Cells, Matrix, Vector, diagonal

Weights = dict[str, list]


def affine(matrix: list[Vector], bias: Vector, vector: Vector) -> Vector:
    return [b + sum(w * x for w, x in zip(row, vector, strict=True)) for row, b in zip(matrix, bias, strict=True)]


def linear(weights: Weights, at: str, vector: Vector) -> Vector:
    return affine(weights[f"{at}.weight"], weights[f"{at}.bias"], vector)


def unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else list(vector)


def gru_cell(weights: Weights, at: str, inputs: Vector, state: Vector) -> Vector:
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


def gru_states(weights: Weights, tokens: list[int], layers: int, bidirectional: bool) -> dict[str, list]:
    """``forward`` and ``backward``: the last layer's state after each token, by the token's place; backward may be None."""
    inputs = [weights["embed.weight"][token] for token in tokens]
    for layer in range(layers):
        forward = _run(weights, f"l{layer}", inputs)
        backward = _run(weights, f"l{layer}_reverse", inputs[::-1])[::-1] if bidirectional else None
        inputs = [f + b for f, b in zip(forward, backward, strict=True)] if backward else forward
    return {"forward": forward, "backward": backward}


def _run(weights: Weights, at: str, inputs: list[Vector]) -> list[Vector]:
    state, states = [0.0] * len(weights[f"rnn.weight_hh_{at}"][0]), []
    for vector in inputs:
        state = gru_cell(weights, at, vector, state)
        states.append(state)
    return states


def caption(weights: Weights, tokens: list[int], pooling: str, layers: int = 1, bidirectional: bool = False) -> Vector:
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
        pooled = linear(weights, "fc", pooled)
    return unit(pooled)


def gpo(weights: Weights, rows: list[Vector]) -> Vector:
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


def pooled(weights: Weights, features: list[Vector], pooling: str) -> Vector:
    """The linear layer on every region, one vector of them all, unit length."""
    rows = [linear(weights, "fc", region) for region in features]
    if pooling == "gpo":
        return unit(gpo({name.removeprefix("gpo."): values for name, values in weights.items()}, rows))
    reduce = max if pooling == "max" else lambda column: sum(column) / len(column)
    return unit([reduce(column) for column in zip(*rows, strict=True)])


def words(weights: Weights, tokens: list[int], layers: int = 1, bidirectional: bool = False) -> list[Vector]:
    """Each token's vector: its state over its length plus 1e-8."""
    states = gru_states(weights, tokens, layers, bidirectional)
    rows = _averaged(states["forward"], states["backward"])
    return [[x / (math.sqrt(sum(y * y for y in row)) + 1e-8) for x in row] for row in rows]


def _averaged(forward: list[Vector], backward: list[Vector] | None) -> list[Vector]:
    if backward is None:
        return forward
    pairs = zip(forward, backward, strict=True)
    return [[(f + b) / 2 for f, b in zip(one, other, strict=True)] for one, other in pairs]


def two_branch(weights: Weights, rows: list[Vector], batch_norm: str, training: bool) -> list[Vector]:
    """Two linear layers with ReLU between them, no dropout; batch normalisation last, first or none."""
    rows = [linear(weights, "fc1.0", row) for row in rows]
    if batch_norm == "first":
        rows = _batch_norm(weights, "fc1.1", rows, training)
    rows = [linear(weights, "fc2", [max(0.0, x) for x in row]) for row in rows]
    if batch_norm == "last":
        rows = _batch_norm(weights, "bn", rows, training)
    return [unit(row) for row in rows]


def _batch_norm(weights: Weights, at: str, rows: list[Vector], training: bool) -> list[Vector]:
    columns = []
    for i, column in enumerate(zip(*rows, strict=True)):
        mean, variance = weights[f"{at}.running_mean"][i], weights[f"{at}.running_var"][i]
        if training:
            mean = sum(column) / len(column)
            variance = sum((x - mean) ** 2 for x in column) / len(column)
        scale, shift = weights[f"{at}.weight"][i], weights[f"{at}.bias"][i]
        columns.append([(x - mean) / math.sqrt(variance + 1e-5) * scale + shift for x in column])
    return [list(row) for row in zip(*columns, strict=True)]


def regions(weights: Weights, features: list[Vector]) -> list[Vector]:
    """Each region's vector: the linear layer's output over its length plus 1e-8."""
    found = []
    for region in features:
        vector = linear(weights, "fc", region)
        length = math.sqrt(sum(x * x for x in vector)) + 1e-8
        found.append([x / length for x in vector])
    return found


def residual(weights: Weights, vector: Vector) -> Vector:
    """One layer plus a branch of two, at unit length."""
    hidden = [max(0.0, x) for x in linear(weights, "mlp.0", vector)]
    added = linear(weights, "mlp.3", hidden)
    return unit([a + b for a, b in zip(linear(weights, "fc", vector), added, strict=True)])


def correlations_and_cosines(images: np.ndarray, texts: np.ndarray, eta: float, size: int) -> tuple[list, np.ndarray]:
    """(size,) r and the (rows, rows) cosines of the mapped rows of ``images`` and ``texts``, parallel.

    ``[[0, Cxy], [Cyx, 0]] w = r [[Cx, 0], [0, Cy]] w``, the largest r first; each half of w scaled to ``w^T C w = 1``.
    """
    images, texts = images - images.mean(axis=0), texts - texts.mean(axis=0)
    width, both = images.shape[1], images.shape[1] + texts.shape[1]
    left, right = np.zeros((both, both)), np.zeros((both, both))
    for side, place in ((images, slice(0, width)), (texts, slice(width, both))):
        covariance = np.cov(side.T) + 1e-8 * np.eye(side.shape[1])
        right[place, place] = covariance + eta * eigh(covariance)[0].max() * np.eye(side.shape[1])
    left[:width, width:] = images.T @ texts / (len(images) - 1)
    left[width:, :width] = left[:width, width:].T
    values, vectors = eigh(left, right)
    mapped = [np.zeros((len(images), size)), np.zeros((len(images), size))]
    for column, place in enumerate(np.argsort(values)[::-1][:size]):
        for side, half, out in ((images, slice(0, width), mapped[0]), (texts, slice(width, both), mapped[1])):
            direction = vectors[half, place]
            direction = direction / np.sqrt(direction @ right[half, half] @ direction)
            out[:, column] = values[place] * (side @ direction)
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped]
    return sorted(values)[::-1][:size], units[0] @ units[1].T


def ridge_cosines(source: np.ndarray, target: np.ndarray, strength: float) -> np.ndarray:
    """(rows, rows) cosines of each centred row of ``target`` with each prediction from ``source``, parallel.

    Least squares of every column of the target alone; a row for each dimension of the source pulls its weight to 0.
    """
    source, target = source - source.mean(axis=0), target - target.mean(axis=0)
    pull = strength * np.mean([column @ column for column in source.T])
    rows = np.concatenate([source, np.sqrt(pull) * np.eye(source.shape[1])])
    predicted = np.zeros(target.shape)
    for column in range(target.shape[1]):
        wanted = np.concatenate([target[:, column], np.zeros(source.shape[1])])
        predicted[:, column] = source @ np.linalg.lstsq(rows, wanted, rcond=None)[0]
    return np.array(
        [[true @ guess / np.linalg.norm(true) / np.linalg.norm(guess) for guess in predicted] for true in target]
    )


Component = tuple[float, float, float]


def fit(x: Vector, low: list[bool], iterations: int = 3000) -> tuple[Component, Component, Vector]:
    """EM from a split in two, the M step by weighted moments: (alpha, beta, weight) of both, and the posteriors of ``low``."""
    posterior = [1.0 if one else 0.0 for one in low]
    for _ in range(iterations):
        first = _moments(x, posterior)
        second = _moments(x, [1 - p for p in posterior])
        posterior = [_density(first, value) / (_density(first, value) + _density(second, value)) for value in x]
    return first, second, posterior


def best_split(x: Vector) -> list[bool]:
    """The split of points on a line with the least squared distance to the two means, by trying all."""
    best, chosen = math.inf, x[0]
    for threshold in sorted(set(x))[:-1]:
        parts = [[v for v in x if v <= threshold], [v for v in x if v > threshold]]
        spent = sum((v - sum(part) / len(part)) ** 2 for part in parts for v in part)
        if spent < best - 1e-12:
            best, chosen = spent, threshold
    return [v <= chosen for v in x]


def _weighted(x: Vector, share: Vector) -> Component:
    """Mean, variance and weight."""
    total = sum(share)
    mean = sum(s * v for s, v in zip(share, x, strict=True)) / total
    return mean, sum(s * (v - mean) ** 2 for s, v in zip(share, x, strict=True)) / total, total / len(x)


def _moments(x: Vector, share: Vector) -> Component:
    mean, variance, weight = _weighted(x, share)
    strength = mean * (1 - mean) / variance - 1
    return mean * strength, (1 - mean) * strength, weight


def _density(component: Component, x: float) -> float:
    alpha, beta, weight = component
    scale = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return weight * math.exp(scale + (alpha - 1) * math.log(x) + (beta - 1) * math.log(1 - x))


def fit_normal(x: Vector, low: list[bool]) -> Vector:
    """Ten steps of EM of two normal distributions, fewer where the mean log-likelihood moves by less than 0.01, from a split
    in two and with 5e-4 added to the variances: the posteriors of ``low``."""
    posterior, before = [1.0 if one else 0.0 for one in low], -math.inf
    parts = _normals(x, posterior)
    for _ in range(10):
        joint = [[_normal(part, value) for part in parts] for value in x]
        reached = sum(math.log(sum(both)) for both in joint) / len(x)
        posterior = [both[0] / sum(both) for both in joint]
        parts = _normals(x, posterior)
        if abs(reached - before) < 1e-2:
            break
        before = reached
    joint = [[_normal(part, value) for part in parts] for value in x]
    return [both[0] / sum(both) for both in joint]


def _normals(x: Vector, posterior: Vector) -> list[Component]:
    both = (_weighted(x, share) for share in (posterior, [1 - p for p in posterior]))
    return [(mean, variance + 5e-4, weight) for mean, variance, weight in both]


def _normal(component: Component, x: float) -> float:
    mean, variance, weight = component
    return weight * math.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def partial_plan(
    cost: Matrix,
    mass: float,
    regularisation: float,
    mask: bool | list[list[bool]],
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
) -> Matrix:
    """Log-domain Sinkhorn on the problem with a dummy row and a dummy column; the plan without them. mask: closed cells, True:
    those of the diagonal."""
    rows, columns = len(cost), len(cost[0])
    largest = max(map(max, cost))
    dear = 100 * largest
    costs = [[*row, dear] for row in cost] + [[dear] * columns + [2 * dear + largest]]
    closed = mask if isinstance(mask, list) else [[mask and i == j for j in range(columns)] for i in range(rows)]
    for i, row in enumerate(closed):
        for j, cell in enumerate(row):
            costs[i][j] = math.inf if cell else costs[i][j]
    p = [1 / rows] * rows + [1 - mass]
    q = [1 / columns] * columns + [1 - mass]
    u, v = [0.0] * (rows + 1), [0.0] * (columns + 1)

    def scaled(share: float, values: Vector) -> float:
        return regularisation * (math.log(share) - _soft_max([value / regularisation for value in values]))

    for _ in range(max_iterations):
        before = u
        u = [scaled(p[i], [v[j] - costs[i][j] for j in range(columns + 1)]) for i in range(rows + 1)]
        v = [scaled(q[j], [u[i] - costs[i][j] for i in range(rows + 1)]) for j in range(columns + 1)]
        if math.sqrt(sum((new - old) ** 2 for new, old in zip(u, before, strict=True))) < tolerance:
            break
    return [[math.exp((u[i] + v[j] - costs[i][j]) / regularisation) for j in range(columns)] for i in range(rows)]


def _soft_max(values: Vector) -> float:
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


def crcl(scores: Matrix, tau: float, weight: float, targets: Vector | None = None, same: Cells | None = None) -> Vector:
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


def dirichlet_from_uniform(alpha: Vector) -> float:
    """KL(Dir(alpha), Dir(1))."""
    total = sum(alpha)
    found = math.lgamma(total) - math.lgamma(len(alpha))
    for one in alpha:
        found += (one - 1) * (digamma(one) - digamma(total)) - math.lgamma(one)
    return float(found)


def evidential(evidence: Vector, labels: Vector, weight: float) -> float:
    """DECL's loss of a row: the squared error expected under Dir(evidence + 1), and what takes evidence from the rest."""
    alpha = [e + 1 for e in evidence]
    total = sum(alpha)
    found = 0.0
    for a, label in zip(alpha, labels, strict=True):
        found += (label - a / total) ** 2 + a * (total - a) / (total**2 * (total + 1))
    wrong = [e * (1 - label) + 1 for e, label in zip(evidence, labels, strict=True)]
    return found + weight * dirichlet_from_uniform(wrong)


def decl(scores: Matrix, options: dict[str, float], targets: Vector | None = None, same: Cells | None = None) -> Vector:
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
