"""The structure-preserving losses in plain loops and floats."""

import math
from collections.abc import Sequence

from tests.naive.losses import Matrix

Named = Sequence[tuple[int, list[float]]]


def structure(
    images: Matrix, texts: Matrix, owners: list[int], margin: float, lambda1: float, lambda3: float, top: int
) -> list[float]:
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
) -> list[float]:
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
