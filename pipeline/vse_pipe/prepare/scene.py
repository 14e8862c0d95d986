"""A scene of one to four figures on a background, and true captions of it.

Coordinates and lengths are fractions of the image side; x grows to the right and y grows downwards.
A caption with few details fits many images, which makes hubs."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

Value = TypeVar("Value")

NOUNS = {
    "circle": ("circle", "disc", "ball", "dot"),
    "square": ("square", "box", "block"),
    "triangle": ("triangle", "wedge"),
    "star": ("star",),
    "heart": ("heart",),
    "cross": ("cross", "plus sign"),
    "ring": ("ring", "hoop"),
    "diamond": ("diamond", "rhombus"),
}
COLOURS = {
    "red": ("red", "crimson"),
    "orange": ("orange",),
    "yellow": ("yellow", "golden"),
    "green": ("green",),
    "blue": ("blue",),
    "purple": ("purple", "violet"),
    "black": ("black", "dark"),
}
SIZES = {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")}
PATTERNS = {
    "plain": ("plain", "uniform"),
    "striped": ("striped", "diagonally striped"),
    "checked": ("checked", "chequered"),
    "dotted": ("dotted", "polka dot"),
    "shaded": ("shaded", "fading"),
}
TINTS = {
    "white": ("white",),
    "grey": ("grey", "silver"),
    "beige": ("beige", "cream"),
    "pink": ("pink", "rose"),
    "mint": ("mint", "pale green"),
}
BACKGROUNDS = ("background", "backdrop")
PLACES = {
    "left": ("on the left", "on the left side", "at the left edge"),
    "right": ("on the right", "on the right side", "at the right edge"),
    "top": ("at the top", "in the upper part"),
    "bottom": ("at the bottom", "in the lower part"),
    "top left": ("in the top left corner", "at the upper left"),
    "top right": ("in the top right corner", "at the upper right"),
    "bottom left": ("in the bottom left corner", "at the lower left"),
    "bottom right": ("in the bottom right corner", "at the lower right"),
    "middle": ("in the middle", "in the centre"),
}
RELATIONS = {
    "left of": ("to the left of", "left of"),
    "right of": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "next to": ("next to", "beside", "close to"),
}
ANYTHING = ("shape", "figure", "object")
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
SOME = ("some", "a few")
OPENERS = ("", "", "there is ", "a picture of ", "an image with ", "we see ")
OPENERS_OF_COUNTS = ("", "", "a picture of ", "an image with ", "we see ")
# "uniform" is spoken with a consonant.
VOWELS = ("a", "e", "i", "o")

RADII = {"small": 0.085, "medium": 0.125, "large": 0.18}
MOST_FIGURES = 4

_SIDE, _CENTRE = 0.38, 0.10
_CLEAR, _NEAR = 0.15, 0.12


@dataclass(frozen=True)
class Figure:
    """One object. x, y: its centre; tilt: degrees; shade: -1 (darker) to 1 (lighter)."""

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
    """A value, all equally probable."""
    return values[int(rng.integers(len(values)))]


def gap(a: Figure, b: Figure) -> float:
    """Free length between the circles around two figures; negative when the circles overlap."""
    return math.hypot(a.x - b.x, a.y - b.y) - a.radius - b.radius


def place(figure: Figure) -> str | None:
    """``left``, ``top``, ``top left``, ..., ``middle``, or None when no word is clearly true."""
    across = "left" if figure.x < _SIDE else "right" if figure.x > 1 - _SIDE else ""
    down = "top" if figure.y < _SIDE else "bottom" if figure.y > 1 - _SIDE else ""
    if across or down:
        return f"{down} {across}".strip()
    return "middle" if max(abs(figure.x - 0.5), abs(figure.y - 0.5)) < _CENTRE else None


def relations(a: Figure, b: Figure) -> list[str]:
    """The relations of ``a`` to ``b``: ``left of``/``right of``/``above``/``below`` along the
    longer axis, and ``next to``, at least one of them."""
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
    return Scene(figures, Background(pick(rng, tuple(PATTERNS)), pick(rng, tuple(TINTS))))


def near_duplicate(scene: Scene, rng: np.random.Generator) -> Scene:
    """``scene`` with a single change: a figure's colour, shape or size, two figures swapped, or the
    background. A colour changes where the drawn change has no room."""
    index = int(rng.integers(len(scene.figures)))
    figure = scene.figures[index]
    change = pick(rng, ("colour", "shape", "size", "swap", "pattern"))
    if change == "pattern":
        pattern = _different(rng, PATTERNS, scene.background.pattern)
        return replace(scene, background=replace(scene.background, pattern=pattern))
    if change == "swap" and len(scene.figures) > 1:
        return _swapped(scene, index, (index + 1) % len(scene.figures))
    if change == "shape":
        return _with(scene, index, replace(figure, shape=_different(rng, NOUNS, figure.shape)))
    if change == "size":
        resized = _with(scene, index, replace(figure, size=_different(rng, RADII, figure.size)))
        if fits(resized):
            return resized
    return _with(scene, index, replace(figure, colour=_different(rng, COLOURS, figure.colour)))


def fits(scene: Scene) -> bool:
    """Return whether all figures are inside the image and MIN_GAP apart."""
    figures = scene.figures
    spaced = all(gap(a, b) >= MIN_GAP for i, a in enumerate(figures) for b in figures[:i])
    return spaced and all(f.radius <= c <= 1 - f.radius for f in figures for c in (f.x, f.y))


def _sample_figure(rng: np.random.Generator) -> Figure:
    size = pick(rng, tuple(RADII))
    edge = RADII[size] + _BORDER
    x, y = (round(float(value), 4) for value in rng.uniform(edge, 1 - edge, 2))
    tilt, shade = (round(float(value), 3) for value in rng.uniform(-1, 1, 2))
    return Figure(pick(rng, tuple(NOUNS)), pick(rng, tuple(COLOURS)), size, x, y, tilt * _TILT_DEGREES, shade)


def _swapped(scene: Scene, i: int, j: int) -> Scene:
    """Two figures exchange shape, colour and shade, not place and size, so the layout fits."""
    a, b = scene.figures[i], scene.figures[j]
    if (a.shape, a.colour) == (b.shape, b.colour):
        shapes = tuple(NOUNS)
        return _with(scene, i, replace(a, shape=shapes[shapes.index(a.shape) - 1]))
    scene = _with(scene, i, replace(a, shape=b.shape, colour=b.colour, shade=b.shade))
    return _with(scene, j, replace(b, shape=a.shape, colour=a.colour, shade=a.shade))


def _with(scene: Scene, index: int, figure: Figure) -> Scene:
    figures = scene.figures
    return replace(scene, figures=(*figures[:index], figure, *figures[index + 1 :]))


def _different(rng: np.random.Generator, values: Iterable[str], current: str) -> str:
    return pick(rng, tuple(value for value in values if value != current))


_SAYS_COLOUR, _SAYS_SIZE, _SAYS_BACKGROUND, _SAYS_NUMBER = 0.9, 0.45, 0.3, 0.5


class Mention(NamedTuple):
    """A noun phrase for a figure, numbered from 0; start: in characters of the caption from 0."""

    start: int
    text: str
    figure: int


# A caption in pieces; mentions do not know yet where they start.
_Parts = list[str | Mention]


def describe(scene: Scene, count: int, vague: float, rng: np.random.Generator) -> dict[str, list[Mention]]:
    """``count`` different captions, each vague with probability ``vague``, in lower case. Each has
    its phrases that name a single figure."""
    captions: dict[str, list[Mention]] = {}
    while len(captions) < count:
        captions.setdefault(*_joined(_caption(scene, vague, rng)))
    return captions


def _joined(parts: _Parts) -> tuple[str, list[Mention]]:
    text, mentions = "", []
    for part in parts:
        if isinstance(part, Mention):
            mentions.append(part._replace(start=len(text)))
        text += part.text if isinstance(part, Mention) else part
    return text, mentions


def _caption(scene: Scene, vague: float, rng: np.random.Generator) -> _Parts:
    if rng.random() < vague:
        return _vague(scene, rng)
    parts = None
    while parts is None:
        parts = pick(rng, _TEMPLATES)(scene, rng)
    return parts


def _inventory(scene: Scene, rng: np.random.Generator) -> _Parts:
    """Every figure, in any order."""
    phrases = [_figure(scene, int(i), rng) for i in rng.permutation(len(scene.figures))]
    between = ["", *[", "] * (len(phrases) - 2), " and "][: len(phrases)]
    listed = [part for pair in zip(between, phrases, strict=True) for part in pair]
    return [pick(rng, OPENERS), *listed, _sometimes_on(scene.background, rng)]


def _relation(scene: Scene, rng: np.random.Generator) -> _Parts | None:
    """Two figures and the relation of the first to the second; None for a single figure."""
    if len(scene.figures) < 2:
        return None
    first, second = (int(i) for i in rng.permutation(len(scene.figures))[:2])
    between = pick(rng, RELATIONS[pick(rng, relations(scene.figures[first], scene.figures[second]))])
    parts: _Parts = [_figure(scene, first, rng), f" {between} ", _figure(scene, second, rng)]
    return [pick(rng, OPENERS), *parts, _sometimes_on(scene.background, rng)]


def _placed(scene: Scene, rng: np.random.Generator) -> _Parts | None:
    """A figure and its place in the image; None when no place is clear."""
    number = pick(rng, range(len(scene.figures)))
    where = place(scene.figures[number])
    if where is None:
        return None
    parts: _Parts = [_figure(scene, number, rng), f" {pick(rng, PLACES[where])}"]
    return [pick(rng, OPENERS), *parts, _sometimes_on(scene.background, rng)]


def _single(scene: Scene, rng: np.random.Generator) -> _Parts:
    """A figure, possibly one of many."""
    return [pick(rng, OPENERS), _figure(scene, pick(rng, range(len(scene.figures))), rng), _on(scene.background, rng)]


def _count(scene: Scene, rng: np.random.Generator) -> _Parts:
    """The number of figures of each shape, the most frequent first; no colours."""
    shapes = [figure.shape for figure in scene.figures]
    parts: _Parts = []
    for shape, count in Counter(shapes).most_common():
        noun = pick(rng, NOUNS[shape])
        plural = "" if count == 1 else "es" if noun.endswith(("s", "x")) else "s"
        text = f"{NUMBERS[count]} {noun}{plural}"
        parts += [" and ", Mention(0, text, shapes.index(shape)) if count == 1 else text]
    return [pick(rng, OPENERS_OF_COUNTS), *parts[1:], _sometimes_on(scene.background, rng)]


def _vague(scene: Scene, rng: np.random.Generator) -> _Parts:
    """A distractor: some figures without details, and the background."""
    count = len(scene.figures)
    number = NUMBERS[count]
    if rng.random() >= _SAYS_NUMBER:
        number = pick(rng, SOME) if count > 1 else "a single"
    text = f"{number} {pick(rng, ANYTHING)}"
    return [f"{text}s" if count > 1 else Mention(0, text, 0), _on(scene.background, rng)]


_TEMPLATES: tuple[Callable[[Scene, np.random.Generator], _Parts | None], ...] = (
    *[_inventory] * 3,
    *[_relation] * 3,
    *[_placed] * 2,
    _single,
    _count,
)


def _figure(scene: Scene, number: int, rng: np.random.Generator) -> Mention:
    """An article, perhaps a size, mostly a colour, a noun. Medium figures have no size word."""
    figure = scene.figures[number]
    parts = [pick(rng, NOUNS[figure.shape])]
    if rng.random() < _SAYS_COLOUR:
        parts.insert(0, pick(rng, COLOURS[figure.colour]))
    if figure.size in SIZES and rng.random() < _SAYS_SIZE:
        parts.insert(0, pick(rng, SIZES[figure.size]))
    return Mention(0, _with_article(" ".join(parts)), number)


def _sometimes_on(background: Background, rng: np.random.Generator) -> str:
    return _on(background, rng) if rng.random() < _SAYS_BACKGROUND else ""


def _on(background: Background, rng: np.random.Generator) -> str:
    """The background's pattern, tint or both."""
    pattern, tint = pick(rng, PATTERNS[background.pattern]), pick(rng, TINTS[background.tint])
    look = pick(rng, (pattern, tint, f"{pattern} {tint}"))
    return f" on {_with_article(look)} {pick(rng, BACKGROUNDS)}"


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase.startswith(VOWELS) else 'a'} {phrase}"
