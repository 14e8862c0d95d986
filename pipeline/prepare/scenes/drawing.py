"""Draw a scene: flat figures with a soft shadow on a patterned background, antialiased by supersampling."""

import functools
import math

import numpy as np
from PIL import Image, ImageDraw

from pipeline.prepare.scenes.scene import Background, Figure, Scene

_OVERSAMPLING = 4
_BANDS = 7
_SHADOW, _SHADOW_OFFSET = (30, 30, 60, 60), 0.014
_SHADE = 18

FIGURE_RGB = {
    "red": (214, 45, 48),
    "orange": (245, 135, 28),
    "yellow": (248, 208, 44),
    "green": (52, 158, 72),
    "blue": (40, 96, 208),
    "purple": (134, 62, 170),
    "black": (44, 44, 50),
}
TINT_RGB = {
    "white": (252, 252, 252),
    "grey": (196, 200, 206),
    "beige": (240, 224, 192),
    "pink": (250, 206, 216),
    "mint": (190, 232, 212),
}


def draw(scene: Scene, pixels: int) -> Image.Image:
    """An RGB image of ``pixels`` x ``pixels``. The result depends on nothing but the arguments."""
    side = pixels * _OVERSAMPLING
    image = Image.fromarray(_background(scene.background, side))
    brush = ImageDraw.Draw(image, "RGBA")
    for figure in scene.figures:
        points = _points(figure)
        brush.polygon(_scaled(points + _SHADOW_OFFSET, side), fill=_SHADOW)
        brush.polygon(_scaled(points, side), fill=_rgb(figure))
    return image.reduce(_OVERSAMPLING)


def _rgb(figure: Figure) -> tuple[int, ...]:
    return tuple(min(255, max(0, round(c + _SHADE * figure.shade))) for c in FIGURE_RGB[figure.colour])


def _points(figure: Figure) -> np.ndarray:
    """(n, 2) vertices in fractions of the image side."""
    angle = math.radians(figure.tilt)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return (_outlines()[figure.shape] @ turn) * figure.radius + (figure.x, figure.y)


def _scaled(points: np.ndarray, side: int) -> list[float]:
    # Rounded to whole subpixels, so that the last bit of a cosine cannot move an edge.
    return np.rint(points * side).ravel().tolist()


@functools.cache
def _background(background: Background, side: int) -> np.ndarray:
    """(side, side, 3) bytes: the tint, darkened where the pattern has ink; the same for every scene that has it."""
    tint = np.array(TINT_RGB[background.tint], np.float32)
    ink = _ink(background.pattern, side)[..., None]
    return np.rint(tint * (1 - 0.16 * ink)).astype(np.uint8)


def _ink(pattern: str, side: int) -> np.ndarray:
    """(side, side) or a shape that broadcasts to it, 0 to 1."""
    x = np.arange(side, dtype=np.float32)[None, :] / side * _BANDS
    y = x.T
    match pattern:
        case "striped":
            ink = (x + y) % 1.0 < 0.5
        case "checked":
            ink = (np.floor(x) + np.floor(y)) % 2 == 0
        case "dotted":
            ink = (x % 1.0 - 0.5) ** 2 + (y % 1.0 - 0.5) ** 2 < 0.07
        case "shaded":
            ink = 1.5 * y / _BANDS + 0 * x
        case _:
            ink = np.zeros((side, side))
    return ink.astype(np.float32)


@functools.cache
def _outlines() -> dict[str, np.ndarray]:
    """Vertices of every shape inside the unit circle, first axis right, second axis down."""
    turn = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    circle = np.stack([np.sin(turn), -np.cos(turn)], axis=1)
    points = np.where(np.arange(10) % 2 == 0, 1.0, 0.45)[:, None] * circle[(np.arange(10) * 7.2).round().astype(int)]
    star = points
    heart = np.stack([16 * np.sin(turn) ** 3, -13 * np.cos(turn) + 5 * np.cos(2 * turn) + 2 * np.cos(3 * turn) + np.cos(4 * turn)], 1)
    arm = 0.32
    quarter = np.array([[-arm, -0.95], [arm, -0.95], [arm, -arm]])
    right = np.array([[0, 1], [-1, 0]])
    closed = np.concatenate([circle, circle[:1]])
    return {
        "circle": 0.9 * circle,
        # The hole is cut by walking the inner circle backwards: one polygon, filled by the even-odd rule.
        "ring": np.concatenate([0.95 * closed, 0.55 * closed[::-1]]),
        "square": 0.76 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]),
        "triangle": np.array([[0, -0.95], [0.9, 0.7], [-0.9, 0.7]]),
        "diamond": np.array([[0, -1], [0.66, 0], [0, 1], [-0.66, 0]]),
        "star": star,
        "heart": heart / 17.5,
        "cross": np.concatenate([quarter @ np.linalg.matrix_power(right, k) for k in range(4)]),
    }
