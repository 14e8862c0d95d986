"""What a scene is: one to four figures on a background, and what can be said of where they stand.

Coordinates and lengths are fractions of the image side; x grows to the right and y grows downwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Value = TypeVar("Value")

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "diamond")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "black")
RADII = {"small": 0.085, "medium": 0.125, "large": 0.18}
PATTERNS = ("plain", "striped", "checked", "dotted", "shaded")
TINTS = ("white", "grey", "beige", "pink", "mint")
MOST_FIGURES = 4

_SIDE, _CENTRE = 0.38, 0.10
_CLEAR = 0.15
_NEAR = 0.12


@dataclass(frozen=True)
class Figure:
    """One object. x, y: its centre; tilt: degrees; shade: -1 (darker) to 1 (lighter) within its colour."""

    shape: str
    colour: str
    size: str
    x: float
    y: float
    tilt: float
    shade: float

    @property
    def radius(self) -> float:
        return RADII[self.size]


@dataclass(frozen=True)
class Background:
    pattern: str
    tint: str


@dataclass(frozen=True)
class Scene:
    figures: tuple[Figure, ...]
    background: Background


def pick(rng: np.random.Generator, values: Sequence[Value]) -> Value:
    """Any of them, all alike probable."""
    return values[int(rng.integers(len(values)))]


def gap(a: Figure, b: Figure) -> float:
    """Free length between the circles around two figures; negative when the circles overlap."""
    return math.hypot(a.x - b.x, a.y - b.y) - a.radius - b.radius


def place(figure: Figure) -> str | None:
    """``left``, ``top``, ``top left``, ..., ``middle``, or None where no word is clearly true."""
    across = "left" if figure.x < _SIDE else "right" if figure.x > 1 - _SIDE else ""
    down = "top" if figure.y < _SIDE else "bottom" if figure.y > 1 - _SIDE else ""
    if across or down:
        return f"{down} {across}".strip()
    central = abs(figure.x - 0.5) < _CENTRE and abs(figure.y - 0.5) < _CENTRE
    return "middle" if central else None


def relations(a: Figure, b: Figure) -> list[str]:
    """What ``a`` is to ``b``: ``left of``/``right of``/``above``/``below`` along the longer axis, and ``next to``.

    Never empty: two figures too close for the first four are near each other.
    """
    across, down = a.x - b.x, a.y - b.y
    names = []
    if abs(across) >= max(_CLEAR, abs(down)):
        names.append("left of" if across < 0 else "right of")
    if abs(down) >= max(_CLEAR, abs(across)):
        names.append("above" if down < 0 else "below")
    if gap(a, b) < _NEAR:
        names.append("next to")
    return names


MIN_GAP = 0.01
_FIGURE_COUNTS = (0.15, 0.30, 0.30, 0.25)
_BORDER = 0.02
_TRIES = 200
_TILT_DEGREES = 12.0


def sample_scene(rng: np.random.Generator) -> Scene:
    """1 to 4 figures that stay inside the image and apart by MIN_GAP, on a random background."""
    count = 1 + int(rng.choice(MOST_FIGURES, p=_FIGURE_COUNTS))
    figures: tuple[Figure, ...] = ()
    tries = 0
    while len(figures) < count:
        # A crowded layout may leave no room for the last figure: start the layout again.
        figures, tries = ((), 0) if tries == _TRIES else (figures, tries + 1)
        figure = _sample_figure(rng)
        if all(gap(figure, neighbour) >= MIN_GAP for neighbour in figures):
            figures = (*figures, figure)
    return Scene(figures, Background(pick(rng, PATTERNS), pick(rng, TINTS)))


def near_duplicate(scene: Scene, rng: np.random.Generator) -> Scene:
    """``scene`` with one thing changed: a figure's colour, shape or size, two figures swapped, or the background.

    A figure grows only where it has room; where the drawn change is not possible, a colour changes instead.
    """
    index = int(rng.integers(len(scene.figures)))
    figure = scene.figures[index]
    change = pick(rng, ("colour", "shape", "size", "swap", "pattern"))
    if change == "pattern":
        return replace(
            scene, background=replace(scene.background, pattern=_different(rng, PATTERNS, scene.background.pattern))
        )
    if change == "swap" and len(scene.figures) > 1:
        return _swapped(scene, index, (index + 1) % len(scene.figures))
    if change == "shape":
        return _with(scene, index, replace(figure, shape=_different(rng, SHAPES, figure.shape)))
    if change == "size":
        resized = _with(scene, index, replace(figure, size=_different(rng, tuple(RADII), figure.size)))
        if fits(resized):
            return resized
    return _with(scene, index, replace(figure, colour=_different(rng, COLOURS, figure.colour)))


def fits(scene: Scene) -> bool:
    """Are all figures inside the image and MIN_GAP apart?"""
    figures = scene.figures
    spaced = all(gap(a, b) >= MIN_GAP for i, a in enumerate(figures) for b in figures[:i])
    return spaced and all(f.radius <= c <= 1 - f.radius for f in figures for c in (f.x, f.y))


def _sample_figure(rng: np.random.Generator) -> Figure:
    size = pick(rng, tuple(RADII))
    edge = RADII[size] + _BORDER
    x, y = (round(float(value), 4) for value in rng.uniform(edge, 1 - edge, 2))
    tilt, shade = (round(float(value), 3) for value in rng.uniform(-1, 1, 2))
    return Figure(pick(rng, SHAPES), pick(rng, COLOURS), size, x, y, tilt * _TILT_DEGREES, shade)


def _swapped(scene: Scene, i: int, j: int) -> Scene:
    """Two figures exchange what they are, not where and how large they stand, so the layout still fits."""
    a, b = scene.figures[i], scene.figures[j]
    if (a.shape, a.colour) == (b.shape, b.colour):
        return _with(scene, i, replace(a, shape=SHAPES[SHAPES.index(a.shape) - 1]))
    scene = _with(scene, i, replace(a, shape=b.shape, colour=b.colour, shade=b.shade))
    return _with(scene, j, replace(b, shape=a.shape, colour=a.colour, shade=a.shade))


def _with(scene: Scene, index: int, figure: Figure) -> Scene:
    figures = scene.figures
    return replace(scene, figures=(*figures[:index], figure, *figures[index + 1 :]))


def _different(rng: np.random.Generator, values: tuple[str, ...], current: str) -> str:
    return pick(rng, tuple(value for value in values if value != current))
