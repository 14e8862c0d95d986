"""The rendered data set: pictures of coloured shapes with true captions, made from the seed alone.

Outlines are polygons inside the unit circle, x to the right and y downwards."""

import functools
import hashlib
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from vse_pipe.core.console import track
from vse_pipe.core.seeds import generator
from vse_pipe.prepare.formats.options import ShapesOptions as Params
from vse_pipe.prepare.scene import Background, Figure, Scene, describe, near_duplicate, pick, sample_scene
from vse_pipe.prepare.source import Source, caption_table, image_table, phrase_table

FOLDER = "images"
_ARC_POINTS = 72
_RING_HOLE = 0.58
_STAR_WAIST = 0.45
_ARM = 0.32


def _arc(points: int) -> np.ndarray:
    """Points of the unit circle, clockwise from the top."""
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    return np.stack([np.sin(turn), -np.cos(turn)], axis=1)


def _ring() -> np.ndarray:
    """Around the rim and back around the hole; the slit between them has no width."""
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


# (vertices, 2). A polygon may touch itself, because it is filled by the even-odd rule.
OUTLINES = {
    "circle": 0.9 * _arc(_ARC_POINTS),
    "square": 0.7 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]),
    "triangle": _arc(3),
    "diamond": np.array([[0, -1], [0.66, 0], [0, 1], [-0.66, 0]]),
    "star": _arc(10) * np.where(np.arange(10) % 2 == 0, 1.0, _STAR_WAIST)[:, None],
    "heart": _heart(),
    "cross": _cross(),
    "ring": _ring(),
}
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
    """x1, y1, x2, y2: first and last column and row of the figure in ``draw``, without shadow."""
    corners = np.reshape(_subpixels(_points(figure), pixels * _OVERSAMPLING), (-1, 2))
    x1, y1, x2, y2 = np.clip([*corners.min(axis=0), *corners.max(axis=0)], 0, pixels * _OVERSAMPLING - 1)
    return tuple(int(edge) // _OVERSAMPLING for edge in (x1, y1, x2, y2))


def _rgb(figure: Figure) -> tuple[int, ...]:
    return tuple(min(255, max(0, round(c + _SHADE * figure.shade))) for c in FIGURE_RGB[figure.colour])


def _points(figure: Figure) -> np.ndarray:
    """(vertices, 2) in fractions of the image side."""
    angle = math.radians(figure.tilt)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return (OUTLINES[figure.shape] @ turn) * figure.radius + (figure.x, figure.y)


def _subpixels(points: np.ndarray, side: int) -> list[float]:
    """Whole subpixels: the last bit of a cosine differs between machines."""
    return np.rint(points * side).ravel().tolist()


@functools.cache
def _background(background: Background, side: int) -> Image.Image:
    """The tint, darker where the pattern has ink. The image is cached, so draw on a copy."""
    tint = np.array(TINT_RGB[background.tint], np.float32)
    pixels = np.rint(tint * (1 - _INK * _ink(background.pattern, side)[..., None])).astype(np.uint8)
    return Image.fromarray(pixels)


def _ink(pattern: str, side: int) -> np.ndarray:
    """(side, side), 0 for blank paper; more than 1 only at the lower edge of ``shaded``."""
    y, x = np.mgrid[:side, :side].astype(np.float32) / side * _BANDS
    inks = {
        "plain": np.zeros((side, side)),
        "striped": (x + y) % 1 < 0.5,
        "checked": (np.floor(x) + np.floor(y)) % 2 == 0,
        "dotted": (x % 1 - 0.5) ** 2 + (y % 1 - 0.5) ** 2 < _DOT_RADIUS**2,
        "shaded": 1.8 * y / _BANDS,
    }
    return inks[pattern].astype(np.float32)


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """Draw the images below ``out / "images"``. ``source`` names the code of the scenes, for DVC."""
    return render(out, params, seed)


def render(out: Path, params: Params, seed: int) -> Source:
    """Write ``out/images/<split>_<number>.png`` and return the tables of images, captions and, if
    wanted, phrases.

    ``file`` is relative to ``out/images``; images are numbered from 1 through train, val and test.
    Each split has its own generators, so its scenes do not depend on the sizes of other splits, and
    a near duplicate copies a scene of its split. The chain of a phrase is the number of its figure,
    from 1; its type is the shape of the figure."""
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    image_rows: list[tuple] = []
    caption_rows: list[tuple] = []
    phrase_rows: list[tuple] = []
    for split in params.counts():
        words = generator(seed, "shapes captions", split)
        scenes = sample_split(params, split, seed)
        for number, scene in enumerate(track(scenes, len(scenes), f"drawing scenes of {split}"), start=1):
            image_id, name = len(image_rows) + 1, f"{split}_{number:05d}.png"
            draw(scene, params.pixels).save(folder / name)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            image_rows.append((image_id, name, split, params.pixels, params.pixels, digest))
            count = int(words.integers(params.min_captions, params.max_captions + 1))
            for text, mentions in describe(scene, count, params.vague, words).items():
                caption_id = len(caption_rows) + 1
                caption_rows.append((caption_id, image_id, text, split))
                for start, phrase, index in mentions:
                    figure = scene.figures[index]
                    row = (len(phrase_rows) + 1, caption_id, image_id, index + 1, start, phrase, figure.shape)
                    phrase_rows.append((*row, *box(figure, params.pixels), split))
    tables = image_table(*zip(*image_rows, strict=True)), caption_table(*zip(*caption_rows, strict=True))
    phrases = phrase_table(phrase_rows, "the rendered scenes") if params.phrases else None
    return Source(*tables, str(folder), phrases=phrases)


def sample_split(params: Params, split: str, seed: int) -> list[Scene]:
    """The different scenes of a split; a share ``near_duplicates`` changes an earlier one."""
    rng: np.random.Generator = generator(seed, "shapes scenes", split)
    scenes: list[Scene] = []
    drawn: set[Scene] = set()
    while len(scenes) < params.counts()[split]:
        copies = scenes and rng.random() < params.near_duplicates
        scene = near_duplicate(pick(rng, scenes), rng) if copies else sample_scene(rng)
        # A change can undo an earlier change, and no model can distinguish two equal images.
        if scene not in drawn:
            scenes.append(scene)
            drawn.add(scene)
    return scenes
