"""Plain loops for what extract does to pixels and vectors; Pillow's resampling from its definition, no Pillow."""

import math

import numpy as np


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    """Keys' kernel with a = -0.5."""
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


_KERNELS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0)}


def _resample(line: list[float], size: int, interpolation: str) -> list[float]:
    kernel, support = _KERNELS[interpolation]
    scale = len(line) / size
    stretch = max(scale, 1.0)
    out = []
    for position in range(size):
        center = (position + 0.5) * scale
        total = value = 0.0
        first = max(0, int(center - support * stretch + 0.5))
        last = min(len(line), int(center + support * stretch + 0.5))
        for source in range(first, last):
            weight = kernel((source + 0.5 - center) / stretch)
            total += weight
            value += weight * line[source]
        out.append(min(255.0, max(0.0, math.floor(value / total + 0.5))))
    return out


def resize(image: list[list[float]], width: int, height: int, interpolation: str) -> list[list[float]]:
    """One channel, rows of 0..255: along the rows first, rounded, then along the columns."""
    wide = [_resample(row, width, interpolation) for row in image]
    columns = [_resample([row[x] for row in wide], height, interpolation) for x in range(width)]
    return [[columns[x][y] for x in range(width)] for y in range(height)]


def scaled_size(width: int, height: int, resize_to: int) -> tuple[int, int]:
    """Shorter side to ``resize_to``, the longer one cut to whole pixels."""
    if width <= height:
        return resize_to, int(resize_to * height / width)
    return int(resize_to * width / height), resize_to


def boxes(width: int, height: int, size: int) -> list[tuple[int, int]]:
    """Left and top of four corners and the centre."""
    return [
        (0, 0),
        (width - size, 0),
        (0, height - size),
        (width - size, height - size),
        (round((width - size) / 2.0), round((height - size) / 2.0)),
    ]


def crop(image: list[list], left: int, top: int, size: int) -> list[list]:
    return [[image[top + y][left + x] for x in range(size)] for y in range(size)]


def mirrored(image: list[list]) -> list[list]:
    return [list(reversed(row)) for row in image]


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
