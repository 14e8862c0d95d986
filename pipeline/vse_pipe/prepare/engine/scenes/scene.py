"""What a scene is: one to four figures on a background, and what can be said of where they stand.

Coordinates and lengths are fractions of the image side; x grows to the right and y grows downwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

One = TypeVar("One")

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


def pick(rng: np.random.Generator, values: Sequence[One]) -> One:
    """Any of them, all alike probable."""
    return values[int(rng.integers(len(values)))]


def gap(a: Figure, b: Figure) -> float:
    """Free length between the circles around two figures; negative when the circles overlap."""
    return math.hypot(a.x - b.x, a.y - b.y) - a.radius - b.radius


def place(figure: Figure) -> str | None:
    """``left``, ``top``, ``top left``, ..., ``middle``, or None where no word is clearly true."""
    across = "left" if figure.x < _SIDE else "right" if figure.x > 1 - _SIDE else ""
    along = "top" if figure.y < _SIDE else "bottom" if figure.y > 1 - _SIDE else ""
    if across or along:
        return f"{along} {across}".strip()
    central = abs(figure.x - 0.5) < _CENTRE and abs(figure.y - 0.5) < _CENTRE
    return "middle" if central else None


def relations(a: Figure, b: Figure) -> list[str]:
    """What ``a`` is to ``b``: ``left of``/``right of``/``above``/``below`` along the longer axis, and ``next to``.

    Never empty: two figures too close for the first four are near each other.
    """
    across, along = a.x - b.x, a.y - b.y
    found = []
    if abs(across) >= max(_CLEAR, abs(along)):
        found.append("left of" if across < 0 else "right of")
    if abs(along) >= max(_CLEAR, abs(across)):
        found.append("above" if along < 0 else "below")
    if gap(a, b) < _NEAR:
        found.append("next to")
    return found
