"""The words of the captions: synonyms of every attribute, and the phrases that place, relate and count figures."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vse_pipe.prepare.scenes.scene import Background, Scene, pick, place, relations

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
PLURALS = {
    "circle": ("circles", "discs", "balls", "dots"),
    "square": ("squares", "boxes", "blocks"),
    "triangle": ("triangles", "wedges"),
    "star": ("stars",),
    "heart": ("hearts",),
    "cross": ("crosses", "plus signs"),
    "ring": ("rings", "hoops"),
    "diamond": ("diamonds", "rhombuses"),
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
A_SINGLE = ("a single",)
OPENERS = ("", "", "there is ", "a picture of ", "an image with ", "we see ")
OPENERS_OF_COUNTS = ("", "", "a picture of ", "an image with ", "we see ")
# "uniform" is spoken with a consonant.
VOWELS = ("a", "e", "i", "o")


# Describe a scene: inventories, relations, places, single figures, counts, and captions that name no figure.
#
# Every caption is true of its scene, and most are true of others too. A caption that leaves much out fits many images,
# which makes hubs; two near duplicates differ only in the captions that mention what was changed.

_SAYS_COLOUR, _SAYS_SIZE, _SAYS_BACKGROUND = 0.9, 0.45, 0.3
_SAYS_NUMBER = 0.5


class NamedShape(NamedTuple):
    """A noun phrase for the one figure of that number, counted from 0."""

    text: str
    figure: int


class Mention(NamedTuple):
    """Where in a caption's text a phrase for one figure begins, in characters from 0."""

    start: int
    text: str
    figure: int


# A caption in pieces.
_Parts = list[str | NamedShape]


def describe(scene: Scene, count: int, vague: float, rng: np.random.Generator) -> dict[str, list[Mention]]:
    """``count`` different captions, each vague with probability ``vague``; lower case, no full stop. To each the phrases
    in it that name one figure, however many others they would fit; not those that name several, or the background."""
    captions: dict[str, list[Mention]] = {}
    while len(captions) < count:
        captions.setdefault(*_joined(_caption(scene, vague, rng)))
    return captions


def _joined(parts: _Parts) -> tuple[str, list[Mention]]:
    text, mentions = "", []
    for part in parts:
        if isinstance(part, NamedShape):
            mentions.append(Mention(len(text), *part))
        text += part.text if isinstance(part, NamedShape) else part
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
    """Two figures and how the first stands to the second; None where there is only one."""
    if len(scene.figures) < 2:
        return None
    first, second = (int(i) for i in rng.permutation(len(scene.figures))[:2])
    between = pick(rng, RELATIONS[pick(rng, relations(scene.figures[first], scene.figures[second]))])
    parts: _Parts = [_figure(scene, first, rng), f" {between} ", _figure(scene, second, rng)]
    return [pick(rng, OPENERS), *parts, _sometimes_on(scene.background, rng)]


def _placed(scene: Scene, rng: np.random.Generator) -> _Parts | None:
    """One figure and where it stands in the image; None where no place is clear."""
    number = pick(rng, range(len(scene.figures)))
    where = place(scene.figures[number])
    if where is None:
        return None
    parts: _Parts = [_figure(scene, number, rng), f" {pick(rng, PLACES[where])}"]
    return [pick(rng, OPENERS), *parts, _sometimes_on(scene.background, rng)]


def _single(scene: Scene, rng: np.random.Generator) -> _Parts:
    """One figure, of perhaps many."""
    opener = pick(rng, OPENERS)
    return [opener, _figure(scene, pick(rng, range(len(scene.figures))), rng), _on(scene.background, rng)]


def _count(scene: Scene, rng: np.random.Generator) -> _Parts:
    """How many figures there are of each shape, the most frequent first; no colours."""
    shapes = [figure.shape for figure in scene.figures]
    parts: _Parts = []
    for shape, count in Counter(shapes).most_common():
        nouns = NOUNS if count == 1 else PLURALS
        text = f"{NUMBERS[count]} {pick(rng, nouns[shape])}"
        parts += [" and ", NamedShape(text, shapes.index(shape)) if count == 1 else text]
    return [pick(rng, OPENERS_OF_COUNTS), *parts[1:], _sometimes_on(scene.background, rng)]


def _vague(scene: Scene, rng: np.random.Generator) -> _Parts:
    """A distractor: that there is something, and the background."""
    count = len(scene.figures)
    number = NUMBERS[count]
    if rng.random() >= _SAYS_NUMBER:
        number = pick(rng, SOME if count > 1 else A_SINGLE)
    text = f"{number} {pick(rng, ANYTHING)}"
    return [f"{text}s" if count > 1 else NamedShape(text, 0), _on(scene.background, rng)]


_TEMPLATES: tuple[Callable[[Scene, np.random.Generator], _Parts | None], ...] = (
    *[_inventory] * 3,
    *[_relation] * 3,
    *[_placed] * 2,
    _single,
    _count,
)


def _figure(scene: Scene, number: int, rng: np.random.Generator) -> NamedShape:
    """An article, perhaps a size, mostly a colour, and a noun. Medium figures have no word for their size."""
    figure = scene.figures[number]
    parts = [pick(rng, NOUNS[figure.shape])]
    if rng.random() < _SAYS_COLOUR:
        parts.insert(0, pick(rng, COLOURS[figure.colour]))
    if figure.size in SIZES and rng.random() < _SAYS_SIZE:
        parts.insert(0, pick(rng, SIZES[figure.size]))
    return NamedShape(_with_article(" ".join(parts)), number)


def _sometimes_on(background: Background, rng: np.random.Generator) -> str:
    return _on(background, rng) if rng.random() < _SAYS_BACKGROUND else ""


def _on(background: Background, rng: np.random.Generator) -> str:
    """Its pattern, its tint or both."""
    pattern, tint = pick(rng, PATTERNS[background.pattern]), pick(rng, TINTS[background.tint])
    look = pick(rng, (pattern, tint, f"{pattern} {tint}"))
    return f" on {_with_article(look)} {pick(rng, BACKGROUNDS)}"


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase.startswith(VOWELS) else 'a'} {phrase}"
