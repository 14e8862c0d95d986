"""Plain loops for what extract does to pixels and vectors; Pillow's resampling from its definition, no Pillow."""

import math

import numpy as np


def mean(vectors: list[list[float]]) -> list[float]:
    return [sum(vector[d] for vector in vectors) / len(vectors) for d in range(len(vectors[0]))]


def unit(vector: list[float]) -> list[float]:
    norm = math.sqrt(sum(value * value for value in vector))
    return [value / norm for value in vector] if norm else list(vector)


texts_unit = unit  # of a row of texts
Matrix = list[list[float]]


def mean_vector(tokens: list[str], vectors: dict[str, list[float]], dim: int) -> list[float]:
    known = [vectors[token] for token in tokens if token in vectors]
    return [sum(vector[d] for vector in known) / len(known) if known else 0.0 for d in range(dim)]


def tfidf(documents: list[list[str]], train: list[list[str]], words: list[str]) -> Matrix:
    """Counts times ln((1 + n) / (1 + df)) + 1, each row of unit length."""
    rows = []
    for document in documents:
        row = []
        for word in words:
            frequency = sum(word in other for other in train)
            row.append(document.count(word) * (math.log((1 + len(train)) / (1 + frequency)) + 1))
        rows.append(texts_unit(row))
    return rows


def log_density(x: float, laplacian: bool, location: float, scale: float) -> float:
    z = abs(x - location) / scale
    if laplacian:
        return -math.log(2 * scale) - z
    return -math.log(scale * math.sqrt(2 * math.pi)) - z * z / 2


def log_joint(point: list[float], mixture: dict) -> list[float]:
    out = []
    for k, weight in enumerate(mixture["weights"]):
        total = math.log(weight)
        for d, x in enumerate(point):
            total += log_density(x, mixture["laplacian"][k][d], mixture["location"][k][d], mixture["scale"][k][d])
        out.append(total)
    return out


def log_likelihood(points: Matrix, mixture: dict) -> float:
    """Summed over points."""
    total = 0.0
    for point in points:
        joint = log_joint(point, mixture)
        top = max(joint)
        total += top + math.log(sum(math.exp(value - top) for value in joint))
    return total


def shares(point: list[float], mixture: dict) -> list[float]:
    joint = log_joint(point, mixture)
    top = max(joint)
    values = [math.exp(value - top) for value in joint]
    return [value / sum(values) for value in values]


def fisher_vector(points: Matrix, mixture: dict) -> list[float]:
    """One caption; the points are its words, a repeated word twice. Locations first, then scales."""
    components, dim = len(mixture["weights"]), len(mixture["location"][0])
    first, second = [], []
    for k in range(components):
        for d in range(dim):
            a = b = 0.0
            for point in points:
                share = shares(point, mixture)[k]
                z = (point[d] - mixture["location"][k][d]) / mixture["scale"][k][d]
                if mixture["laplacian"][k][d]:
                    a += share * ((z > 0) - (z < 0))
                    b += share * (abs(z) - 1)
                else:
                    a += share * z
                    b += share * (z * z - 1) / math.sqrt(2)
            root = math.sqrt(max(len(points), 1) * mixture["weights"][k])
            first.append(a / root)
            second.append(b / root)
    return first + second


def improved(row: list[float]) -> list[float]:
    return texts_unit([math.copysign(math.sqrt(abs(value)), value) for value in row])


def weighted_median(values: list[float], weights: list[float]) -> float:
    """The smallest value with at least half of the weight at or below it."""
    for value in sorted(values):
        below = sum(weight for other, weight in zip(values, weights, strict=True) if other <= value)
        if below >= sum(weights) / 2:
            return value
    return max(values)


def spread(values: list[float], weights: list[float], laplacian: bool) -> tuple[float, float]:
    """(location, scale) of greatest weighted likelihood."""
    total = sum(weights)
    pairs = list(zip(values, weights, strict=True))
    if laplacian:
        median = weighted_median(values, weights)
        return median, sum(weight * abs(value - median) for value, weight in pairs) / total
    mean = sum(value * weight for value, weight in pairs) / total
    return mean, math.sqrt(sum(weight * (value - mean) ** 2 for value, weight in pairs) / total)


def on_white(colours: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """uint8 (h, w, 3): colours laid on white paper; alpha: (h, w), 0 clear, 255 opaque."""
    shown = np.zeros(colours.shape, np.uint8)
    for y in range(colours.shape[0]):
        for x in range(colours.shape[1]):
            for c in range(3):
                a = int(alpha[y, x])
                shown[y, x, c] = round((int(colours[y, x, c]) * a + 255 * (255 - a)) / 255)
    return shown


def turned(stored: np.ndarray, orientation: int) -> np.ndarray:
    """The picture that EXIF orientation 1 to 8 asks for: where the stored rows and columns begin (TIFF 6.0, page 36)."""
    height, width = stored.shape[:2]
    swapped = orientation > 4
    shown = np.zeros((width, height, 3) if swapped else (height, width, 3), np.uint8)
    for row in range(height):
        for column in range(width):
            bottom, right = height - 1 - row, width - 1 - column
            y, x = {
                1: (row, column),
                2: (row, right),
                3: (bottom, right),
                4: (bottom, column),
                5: (column, row),
                6: (column, bottom),
                7: (right, bottom),
                8: (right, row),
            }[orientation]
            shown[y, x] = stored[row, column]
    return shown
