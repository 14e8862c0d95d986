"""A mixture of two beta distributions in plain loops and floats."""

import math

Component = tuple[float, float, float]


def fit(x: list[float], low: list[bool], iterations: int = 3000) -> tuple[Component, Component, list[float]]:
    """EM from a split in two, the M step by weighted moments: (alpha, beta, weight) of both, and the posteriors of ``low``."""
    posterior = [1.0 if one else 0.0 for one in low]
    for _ in range(iterations):
        first = _moments(x, posterior)
        second = _moments(x, [1 - p for p in posterior])
        posterior = [_density(first, value) / (_density(first, value) + _density(second, value)) for value in x]
    return first, second, posterior


def best_split(x: list[float]) -> list[bool]:
    """The split of points on a line with the least squared distance to the two means, by trying all."""
    best, chosen = math.inf, x[0]
    for threshold in sorted(set(x))[:-1]:
        parts = [[v for v in x if v <= threshold], [v for v in x if v > threshold]]
        spent = sum((v - sum(part) / len(part)) ** 2 for part in parts for v in part)
        if spent < best - 1e-12:
            best, chosen = spent, threshold
    return [v <= chosen for v in x]


def _moments(x: list[float], share: list[float]) -> Component:
    total = sum(share)
    mean = sum(s * v for s, v in zip(share, x, strict=True)) / total
    variance = sum(s * (v - mean) ** 2 for s, v in zip(share, x, strict=True)) / total
    strength = mean * (1 - mean) / variance - 1
    return mean * strength, (1 - mean) * strength, total / len(x)


def _density(component: Component, x: float) -> float:
    alpha, beta, weight = component
    scale = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return weight * math.exp(scale + (alpha - 1) * math.log(x) + (beta - 1) * math.log(1 - x))


def fit_normal(x: list[float], low: list[bool]) -> list[float]:
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


def _normals(x: list[float], posterior: list[float]) -> list[Component]:
    found = []
    for share in (posterior, [1 - p for p in posterior]):
        total = sum(share)
        mean = sum(s * v for s, v in zip(share, x, strict=True)) / total
        variance = sum(s * (v - mean) ** 2 for s, v in zip(share, x, strict=True)) / total + 5e-4
        found.append((mean, variance, total / len(x)))
    return found


def _normal(component: Component, x: float) -> float:
    mean, variance, weight = component
    return weight * math.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
