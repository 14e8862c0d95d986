"""Draw a scene: flat figures with a soft shadow on a patterned background, antialiased by supersampling."""

import functools
import math

import numpy as np
from PIL import Image, ImageDraw

from vse_pipe.prepare.engine.scenes.outlines import outline
from vse_pipe.prepare.engine.scenes.scene import Background, Figure, Scene

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
_OVERSAMPLING = 3
_SHADOW_RGBA, _SHADOW_OFFSET = (30, 30, 60, 60), 0.014
_SHADE = 18
_BANDS = 7
_INK = 0.13
_DOT_RADIUS = 0.27


def draw(scene: Scene, pixels: int) -> Image.Image:
    """An RGB image of ``pixels`` x ``pixels`` that depends on nothing but the arguments."""
    side = pixels * _OVERSAMPLING
    image = _background(scene.background, side).copy()
    brush = ImageDraw.Draw(image, "RGBA")
    for figure in scene.figures:
        points = _points(figure)
        brush.polygon(_subpixels(points + _SHADOW_OFFSET, side), fill=_SHADOW_RGBA)
        brush.polygon(_subpixels(points, side), fill=_rgb(figure))
    return image.reduce(_OVERSAMPLING)


def box(figure: Figure, pixels: int) -> tuple[int, ...]:
    """The first and last column and row of pixels that show any of the figure in ``draw``, its shadow apart: x1, y1, x2, y2."""
    corners = np.reshape(_subpixels(_points(figure), pixels * _OVERSAMPLING), (-1, 2))
    x1, y1, x2, y2 = np.clip([*corners.min(axis=0), *corners.max(axis=0)], 0, pixels * _OVERSAMPLING - 1)
    return tuple(int(edge) // _OVERSAMPLING for edge in (x1, y1, x2, y2))


def _rgb(figure: Figure) -> tuple[int, ...]:
    return tuple(min(255, max(0, round(c + _SHADE * figure.shade))) for c in FIGURE_RGB[figure.colour])


def _points(figure: Figure) -> np.ndarray:
    """(vertices, 2) in fractions of the image side."""
    angle = math.radians(figure.tilt)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return (outline(figure.shape) @ turn) * figure.radius + (figure.x, figure.y)


def _subpixels(points: np.ndarray, side: int) -> list[float]:
    """Whole subpixels, so that the last bit of a cosine, which differs between machines, cannot move an edge."""
    return np.rint(points * side).ravel().tolist()


@functools.cache
def _background(background: Background, side: int) -> Image.Image:
    """The tint, darker where the pattern has ink; made once for all scenes that show it, so draw on a copy."""
    tint = np.array(TINT_RGB[background.tint], np.float32)
    pixels = np.rint(tint * (1 - _INK * _ink(background.pattern, side)[..., None])).astype(np.uint8)
    return Image.fromarray(pixels)


def _ink(pattern: str, side: int) -> np.ndarray:
    """(side, side), 0 for bare paper; more than 1 only at the lower edge of ``shaded``."""
    y, x = np.mgrid[:side, :side].astype(np.float32) / side * _BANDS
    return {
        "plain": lambda: np.zeros((side, side)),
        "striped": lambda: (x + y) % 1 < 0.5,
        "checked": lambda: (np.floor(x) + np.floor(y)) % 2 == 0,
        "dotted": lambda: (x % 1 - 0.5) ** 2 + (y % 1 - 0.5) ** 2 < _DOT_RADIUS**2,
        "shaded": lambda: 1.8 * y / _BANDS,
    }[pattern]().astype(np.float32)
