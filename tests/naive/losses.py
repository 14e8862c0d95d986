"""The losses in plain loops and floats: what the vectorised ones are compared with.

``same[i][t]`` is true where cell (i, t) is no negative; left out, that is the diagonal.
"""

import math
import operator
from collections.abc import Sequence

from tests.naive.stages import overlap

Vector = list[float]
Matrix = list[Vector]
Cells = list[list[bool]]


def diagonal(n: int) -> Cells:
    return [[i == t for t in range(n)] for i in range(n)]


def hinge(scores: Matrix, margin: float, hardest: bool, same: Cells | None = None) -> Vector:
    """Share of each pair: its violations over all texts and over all images, summed or the largest."""
    return hinge_of_hardest(scores, margin, 1 if hardest else len(scores), same)


def hinge_of_hardest(scores: Matrix, margin: float, count: int, same: Cells | None = None) -> Vector:
    """Share of each pair: the sum of its ``count`` largest violations over texts and over images."""
    both = (_violations(scores, i, margin, same) for i in range(len(scores)))
    return [_largest(texts, count) + _largest(images, count) for texts, images in both]


def _violations(scores: Matrix, i: int, margin: float, same: Cells | None = None) -> tuple[Vector, Vector]:
    """Of pair i, by the other texts and by the other images."""
    n, same = len(scores), same or diagonal(len(scores))
    texts = [max(0.0, margin - scores[i][i] + scores[i][t]) for t in range(n) if not same[i][t]]
    return texts, [max(0.0, margin - scores[i][i] + scores[j][i]) for j in range(n) if not same[j][i]]


def hal(scores: Matrix, gamma: float, eps: float, code: bool, same=None, weights=None, extended=False) -> Vector:
    """Eq. 7 of HAL for each pair; ``code`` adds the authors' zeroed diagonal to the inner sums, ``extended`` puts a
    tenth of the similarity in the place of the logarithm where it is below 0."""
    n = len(scores)
    same = same or diagonal(n)
    factor = weights or [[1.0] * n for _ in range(n)]
    left = (1.0 if weights else math.exp(-gamma * eps)) if code else 0.0
    shares = []
    for i in range(n):
        images = texts = left
        for j in range(n):
            if not same[j][i]:
                images += math.exp(gamma * factor[j][i] * (scores[j][i] - eps))
            if not same[i][j]:
                texts += math.exp(gamma * factor[i][j] * (scores[i][j] - eps))
        strength = factor[i][i] * scores[i][i]
        positive = 0.1 * strength if extended and strength < 0 else math.log(1 + max(0.0, strength))
        shares.append(math.log(1 + images) / gamma + math.log(1 + texts) / gamma - positive)
    return shares


def bank_weights(
    scores: Matrix, to_texts: Matrix, to_images: Matrix, excluded: Cells, options: dict[str, float], code: bool
) -> Matrix:
    """Eq. 6 of HAL. to_texts[i][m]: image i and bank text m; to_images[m][t]: bank image m and text t."""
    n, bank = len(scores), len(to_images)
    alpha, beta, eps1, eps2, k = (options[name] for name in ("alpha", "beta", "eps1", "eps2", "k"))
    if code:
        k = min(k, n)
    near_texts, near_images = [], []
    for i in range(n):
        allowed = [m for m in range(bank) if not excluded[i][m]]
        near_texts.append(sorted((to_texts[i][m] for m in allowed), reverse=True)[:k])
        near_images.append(sorted((to_images[m][i] for m in allowed), reverse=True)[:k])
    weights = []
    for i in range(n):
        row = []
        for t in range(n):
            near = near_texts[i] + near_images[t]
            if i == t:
                margin = eps1 if code else eps2
                held = math.exp(alpha * (scores[i][i] - eps1))
                pulled = sum(math.exp(alpha * (s - margin)) for s in near)
            elif code:
                held = math.exp(beta * scores[i][i]) + math.exp(beta * scores[t][t])
                pulled = sum(math.exp(beta * s - eps2) for s in near)
            else:
                held = math.exp(beta * (scores[i][i] - eps1)) + math.exp(beta * (scores[t][t] - eps1))
                pulled = sum(math.exp(beta * (s - eps2)) for s in near)
            row.append(pulled / (pulled + held))
        weights.append(row)
    return weights


def hub_exponents(scores: Matrix, k: int, reading: str, same: Cells | None = None) -> Matrix:
    """Exponent of Eq. 4 of HAL (EMNLP): the mean of the k largest scores left in row i, and in column t."""
    n = len(scores)
    same = same or diagonal(n)

    def candidate(i: int, t: int, row: int, column: int) -> bool:
        if reading == "A":
            return not same[i][t]
        return (i, t) != (row, column) and (i == t or not same[i][t])

    def mean(values: list[float]) -> float:
        nearest = sorted(values, reverse=True)[:k]
        return sum(nearest) / len(nearest) if nearest else 0.0

    exponents = []
    for i in range(n):
        row = []
        for t in range(n):
            texts = mean([scores[i][other] for other in range(n) if candidate(i, other, i, t)])
            images = mean([scores[other][t] for other in range(n) if candidate(other, t, i, t)])
            row.append(texts + images)
        exponents.append(row)
    return exponents


def hal_emnlp(scores: Matrix, margin: float, k: int, reading: str, hardest: bool, same: Cells | None = None) -> Vector:
    """SUM or MAX on ``S e^exponent``."""
    exponents = hub_exponents(scores, k, reading, same)
    scaled = [[s * math.exp(e) for s, e in zip(*rows, strict=True)] for rows in zip(scores, exponents, strict=True)]
    return hinge(scaled, margin, hardest, same)


def infonce(scores: Matrix, tau: float, same: Cells | None = None) -> Vector:
    """``-log p`` of the positive among the texts, plus the same among the images."""
    n = len(scores)
    shares = []
    for i in range(n):
        texts, images = _chances(scores, tau, i, same or diagonal(n))
        shares.append(-math.log(texts[i]) - math.log(images[i]))
    return shares


def hub(
    scores: Matrix,
    tau: float,
    centrality: float,
    uniform: float,
    beta: float,
    same: Cells | None = None,
) -> Vector:
    """InfoNCE weighed by centrality, and the cross entropies from a plan whose rows and columns were scaled in turn."""
    n = len(scores)
    same = same or diagonal(n)
    counted = [[i == t or not same[i][t] for t in range(n)] for i in range(n)]
    plan = [[math.exp(scores[i][t] / tau) if counted[i][t] else 0.0 for t in range(n)] for i in range(n)]
    for _ in range(50):
        plan = [[value / sum(row) for value in row] for row in plan]
        sums = [sum(plan[i][t] for i in range(n)) for t in range(n)]
        plan = [[plan[i][t] / sums[t] for t in range(n)] for i in range(n)]
    target = [[beta * plan[i][t] + (1 - beta) * (i == t) for t in range(n)] for i in range(n)]
    shares = []
    for i in range(n):
        texts, images = _chances(scores, tau, i, same)
        row = [scores[i][t] for t in range(n) if counted[i][t]]
        column = [scores[j][i] for j in range(n) if counted[j][i]]
        share = -math.exp(centrality * sum(row) / len(row)) * math.log(texts[i])
        share -= math.exp(centrality * sum(column) / len(column)) * math.log(images[i])
        share -= uniform * sum(target[i][t] * math.log(texts[t]) for t in range(n) if counted[i][t])
        share -= uniform * sum(target[j][i] * math.log(images[j]) for j in range(n) if counted[j][i])
        shares.append(share)
    return shares


def sigmoid(scores: Matrix, scale: float, bias: float, same: Cells | None = None) -> Vector:
    """The cross entropy of the positive, and half of that of each negative text and image of the pair."""
    n = len(scores)
    same = same or diagonal(n)

    def cost(i: int, t: int) -> float:
        logit = scale * scores[i][t] + bias
        wanted = logit if i == t else -logit
        return math.log1p(math.exp(-abs(wanted))) + max(-wanted, 0.0)

    shares = []
    for i in range(n):
        texts = [cost(i, t) for t in range(n) if not same[i][t]]
        images = [cost(j, i) for j in range(n) if not same[j][i]]
        shares.append(cost(i, i) + (sum(texts) + sum(images)) / 2)
    return shares


def infonce_rce(scores: Matrix, tau: float, same: Cells | None = None) -> Vector:
    """Half of InfoNCE and of reverse cross entropy: labels moved by 1e-7, scored by the chances."""
    n = len(scores)
    shares = []
    for i, cross in enumerate(infonce(scores, tau, same)):
        reverse = 0.0
        for chances in _chances(scores, tau, i, same or diagonal(n)):
            for t in range(n):
                reverse -= chances[t] * math.log((1.0 if t == i else 0.0) + 1e-7)
        shares.append(0.5 * (cross + reverse))
    return shares


def _chances(scores: Matrix, tau: float, i: int, same: Cells) -> tuple[list[float], list[float]]:
    """The softmax over the texts of image i and over the images of text i; 0 where a cell takes no part."""
    n = len(scores)
    row = [math.exp(scores[i][t] / tau) if t == i or not same[i][t] else 0.0 for t in range(n)]
    column = [math.exp(scores[j][i] / tau) if j == i or not same[j][i] else 0.0 for j in range(n)]
    return [value / sum(row) for value in row], [value / sum(column) for value in column]


def rcl(scores: Matrix, tau: float, same: Cells | None = None) -> Vector:
    """What the negatives of each pair cost by their chances, among the texts and among the images."""
    n = len(scores)
    same = same or diagonal(n)
    shares = []
    for i in range(n):
        texts, images = _chances(scores, tau, i, same)
        share = sum(-math.log(1 - texts[t] + 1e-10) for t in range(n) if not same[i][t])
        shares.append(share + sum(-math.log(1 - images[j] + 1e-10) for j in range(n) if not same[j][i]))
    return shares


def divergence(scores: Matrix, teacher: Matrix, tau: float, teacher_tau: float, same: Cells | None = None) -> Vector:
    """KL of the teacher's softmax from ours for each pair, over its row and over its column."""
    n = len(scores)
    same = same or diagonal(n)

    def chances(logits: list[float]) -> Vector:
        whole = sum(map(math.exp, logits))
        return [math.exp(logit) / whole for logit in logits]

    shares = []
    for i in range(n):
        share = 0.0
        for row in (True, False):
            kept = [t for t in range(n) if t == i or not (same[i][t] if row else same[t][i])]
            sides = [
                chances([(matrix[i][t] if row else matrix[t][i]) / temperature for t in kept])
                for matrix, temperature in ((scores, tau), (teacher, teacher_tau))
            ]
            share += sum(b * (math.log(b) - math.log(a)) for a, b in zip(*sides, strict=True))
        shares.append(share)
    return shares


Named = Sequence[tuple[int, Vector]]


def structure(
    images: Matrix, texts: Matrix, owners: list[int], margin: float, lambda1: float, lambda3: float, top: int
) -> Vector:
    """Eq. 5 of Wang et al. for each pair: at most ``top`` violations of every constraint it anchors."""
    shares = []
    for i, owner in enumerate(owners):
        positive = _distance(images[i], texts[i])
        others = {owners[j]: images[j] for j in reversed(range(len(owners))) if owners[j] != owner}
        foreign = [texts[j] for j in range(len(owners)) if owners[j] != owner]
        kin = [texts[j] for j in range(len(owners)) if owners[j] == owner and j != i]
        share = _largest([margin + positive - _distance(images[i], text) for text in foreign], top)
        share += lambda1 * _largest([margin + positive - _distance(x, texts[i]) for x in others.values()], top)
        for sibling in kin:
            near = _distance(texts[i], sibling)
            share += lambda3 * _largest([margin + near - _distance(texts[i], text) for text in foreign], top)
        shares.append(share)
    return shares


def structure_in_full(
    images: Named,
    texts: Named,
    seen: set[tuple[int, int]],
    factors: tuple[float, float, float],
    margin: float,
    top: int,
    mined: Named = (),
) -> float:
    """Eq. 5 of Wang et al. over the distinct images and texts of a batch, each with its name; seen: the names of all images
    and texts that belong together, in the batch or not. mined: names of texts with vectors that are negatives of them."""

    def kin(a: int, b: int, side: int) -> bool:
        """Whether something of the other side is seen with both."""
        others = [{pair[1 - side] for pair in seen if pair[side] == name} for name in (a, b)]
        return a == b or bool(others[0] & others[1])

    def anchored(anchor, positives, negatives) -> float:
        found = 0.0
        for near in positives:
            violations = [margin + _distance(anchor, near) - _distance(anchor, far) for far in negatives]
            found += _largest(violations, top)
        return found

    total = 0.0
    for i, x in images:
        of_x = [y for t, y in texts if (i, t) in seen]
        total += anchored(x, of_x, [y for t, y in texts if (i, t) not in seen])
        neighbours = [z for j, z in images if j != i and kin(i, j, 0)]
        total += factors[1] * anchored(x, neighbours, [z for j, z in images if not kin(i, j, 0)])
    for t, y in texts:
        negatives = [x for i, x in images if (i, t) not in seen] + [x for name, x in mined if name == t]
        total += factors[0] * anchored(y, [x for i, x in images if (i, t) in seen], negatives)
        neighbours = [z for u, z in texts if u != t and kin(t, u, 1)]
        total += factors[2] * anchored(y, neighbours, [z for u, z in texts if not kin(t, u, 1)])
    return total


def _largest(violations: list[float], top: int) -> float:
    return sum(sorted((value for value in violations if value > 0), reverse=True)[:top])


def structure_code(
    images: Matrix, texts: Matrix, owners: list[int], margin: float, lambda1: float, lambda3: float, top: int
) -> Vector:
    """The authors' code for each pair: means of the ``top`` largest hinge values, zeros among them."""

    def distance(a: list[float], b: list[float]) -> float:
        return math.sqrt(_distance(a, b) ** 2 + 1e-4)

    def mean(values: list[float]) -> float:
        largest = sorted((max(0.0, value) for value in values), reverse=True)[:top]
        return sum(largest) / len(largest) if largest else 0.0

    shares = []
    for i, owner in enumerate(owners):
        positive = distance(images[i], texts[i])
        others = {owners[j]: images[j] for j in reversed(range(len(owners))) if owners[j] != owner}
        foreign = [texts[j] for j in range(len(owners)) if owners[j] != owner]
        farthest = max(distance(texts[i], texts[j]) for j in range(len(owners)) if owners[j] == owner)
        share = mean([margin + positive - distance(images[i], text) for text in foreign])
        share += lambda1 * mean([margin + positive - distance(x, texts[i]) for x in others.values()])
        share += lambda3 * mean([margin + farthest - distance(texts[i], text) for text in foreign])
        shares.append(share)
    return shares


def _distance(a: list[float], b: list[float]) -> float:
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def mined(pairs: list[dict], proposals: list[dict], limit: float | None) -> set[tuple[int, int]]:
    """(text, row) of every proposal nearer to a text than all its ground truths in that picture that have a score. pairs: text,
    picture, box, score of text and region or None, and whether it is a training pair: others are truths alone; proposals: row,
    picture, box, and score by text."""
    found = set()
    for one in pairs:
        if not one["pair"]:
            continue
        truths = [pair for pair in pairs if (pair["text"], pair["picture"]) == (one["text"], one["picture"])]
        for other in proposals:
            if other["picture"] != one["picture"]:
                continue
            nearer = other["score"][one["text"]] > max(truth["score"] for truth in truths if truth["score"] is not None)
            free = limit is None or all(overlap(other["box"], truth["box"]) < limit for truth in truths)
            if nearer and free:
                found.add((one["text"], other["row"]))
    return found


def predicted(scores: Matrix, margin: float) -> Vector:
    """How well each pair fits, against the mean of the ``n // 10 + 1`` best of the batch."""
    n = len(scores)
    fits = []
    for i in range(n):
        fit = margin - sum(map(sum, _violations(scores, i, margin))) / n / 2
        fits.append(min(max(fit, 0.0), margin))
    best = sorted(fits, reverse=True)[: n // 10 + 1]
    mean = sum(best) / len(best)
    return [min(max(fit / mean, 0.0), 1.0) if mean > 0 else 0.0 for fit in fits]


def soft_margin(label: float, margin: float) -> float:
    return margin * (math.pow(10, label) - 1) / 9


def soft_triplets(scores: Matrix, margins: list[float], code: bool) -> Vector:
    """The hardest negatives of each pair; ``code``: every cell has the margin of its row."""
    n = len(scores)
    found = []
    for i in range(n):
        texts = [max(0.0, margins[i] - scores[i][i] + scores[i][t]) for t in range(n) if t != i]
        images = [max(0.0, margins[j if code else i] - scores[i][i] + scores[j][i]) for j in range(n) if j != i]
        found.append(max(texts) + max(images))
    return found


def consistency(pairs: tuple[Matrix, Matrix], anchors: tuple[Matrix, Matrix], code: bool) -> Vector:
    """Labels of pairs from the anchors of the nearest image and of the nearest text; sides of unit vectors."""

    def distance(a: Vector, b: Vector) -> float:
        return max(math.dist(a, b), 0.01)

    def cosine(a: Vector, b: Vector) -> float:
        return sum(map(operator.mul, a, b))

    found = []
    for pair in zip(*pairs, strict=True):
        ratios = []
        for near, far in ((0, 1), (1, 0)):
            count = range(len(anchors[0]))
            if code:
                best = max(count, key=lambda k: cosine(pair[near], anchors[near][k]))
                ratio = cosine(pair[near], anchors[near][best]) / cosine(pair[far], anchors[far][best])
                ratios.append(ratio if ratio < 1 else 1 / ratio)
            else:
                best = min(count, key=lambda k: distance(pair[near], anchors[near][k]))
                ratio = distance(pair[near], anchors[near][best]) / distance(pair[far], anchors[far][best])
                ratios.append(min(ratio, 1.0))
        found.append(min(max(sum(ratios) / 2, 0.0), 1.0))
    return found
