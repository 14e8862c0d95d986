"""Plain loops for what extract does to pixels and vectors; Pillow's resampling from its definition, no Pillow."""

import math


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
