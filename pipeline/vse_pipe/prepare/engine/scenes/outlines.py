"""The outlines of the shapes: polygons inside the unit circle, x to the right and y downwards."""

import functools

import numpy as np

_ARC_POINTS = 72
_RING_HOLE = 0.58
_STAR_WAIST = 0.45
_ARM = 0.32


@functools.cache
def outline(shape: str) -> np.ndarray:
    """(vertices, 2). A polygon may touch itself: it is filled by the even-odd rule."""
    return {
        "circle": lambda: 0.9 * _arc(_ARC_POINTS),
        "square": lambda: 0.7 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]),
        "triangle": lambda: _arc(3),
        "diamond": lambda: np.array([[0, -1], [0.66, 0], [0, 1], [-0.66, 0]]),
        "star": lambda: _arc(10) * np.where(np.arange(10) % 2 == 0, 1.0, _STAR_WAIST)[:, None],
        "heart": _heart,
        "cross": _cross,
        "ring": _ring,
    }[shape]()


def _arc(points: int) -> np.ndarray:
    """Points of the unit circle, clockwise from the top."""
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    return np.stack([np.sin(turn), -np.cos(turn)], axis=1)


def _ring() -> np.ndarray:
    """Around the rim and back around the hole: the slit between the two has no width."""
    closed = np.concatenate([_arc(_ARC_POINTS), _arc(1)])
    return 0.95 * np.concatenate([closed, _RING_HOLE * closed[::-1]])


def _cross() -> np.ndarray:
    quarter = np.array([[-_ARM, -0.94], [_ARM, -0.94], [_ARM, -_ARM]])
    turn = np.array([[0, 1], [-1, 0]])
    return np.concatenate([quarter @ np.linalg.matrix_power(turn, count) for count in range(4)])


def _heart() -> np.ndarray:
    """The usual trigonometric heart curve, scaled from its 17.5 units into the circle."""
    turn = np.linspace(0, 2 * np.pi, _ARC_POINTS, endpoint=False)
    down = -13 * np.cos(turn) + 5 * np.cos(2 * turn) + 2 * np.cos(3 * turn) + np.cos(4 * turn)
    return np.stack([16 * np.sin(turn) ** 3, down], axis=1) / 17.5
