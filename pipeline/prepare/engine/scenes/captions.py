"""Describe a scene: inventories, relations, places, single figures, counts, and captions that name no figure.

Every caption is true of its scene, and most are true of others too. A caption that leaves much out fits many images,
which makes hubs; two near duplicates differ only in the captions that mention what was changed.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

from pipeline.prepare.engine.scenes import words
from pipeline.prepare.engine.scenes.scene import Background, Figure, Scene, pick, place, relations

_SAYS_COLOUR, _SAYS_SIZE, _SAYS_BACKGROUND = 0.9, 0.45, 0.3
_SAYS_NUMBER = 0.5


def describe(scene: Scene, count: int, vague: float, rng: np.random.Generator) -> list[str]:
    """``count`` different captions, each vague with probability ``vague``; lower case, no full stop."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[_caption(scene, vague, rng)] = None
    return list(found)


def _caption(scene: Scene, vague: float, rng: np.random.Generator) -> str:
    if rng.random() < vague:
        return _vague(scene, rng)
    text = None
    while text is None:
        text = pick(rng, _TEMPLATES)(scene, rng)
    return text


def _inventory(scene: Scene, rng: np.random.Generator) -> str:
    """Every figure, in any order."""
    phrases = [_figure(scene.figures[i], rng) for i in rng.permutation(len(scene.figures))]
    listed = f"{', '.join(phrases[:-1])} and {phrases[-1]}" if len(phrases) > 1 else phrases[0]
    return pick(rng, words.OPENERS) + listed + _sometimes_on(scene.background, rng)


def _relation(scene: Scene, rng: np.random.Generator) -> str | None:
    """Two figures and how the first stands to the second; None where there is only one."""
    if len(scene.figures) < 2:
        return None
    first, second = (scene.figures[i] for i in rng.permutation(len(scene.figures))[:2])
    between = pick(rng, words.RELATIONS[pick(rng, relations(first, second))])
    text = f"{_figure(first, rng)} {between} {_figure(second, rng)}"
    return pick(rng, words.OPENERS) + text + _sometimes_on(scene.background, rng)


def _placed(scene: Scene, rng: np.random.Generator) -> str | None:
    """One figure and where it stands in the image; None where no place is clear."""
    figure = pick(rng, scene.figures)
    where = place(figure)
    if where is None:
        return None
    text = f"{_figure(figure, rng)} {pick(rng, words.PLACES[where])}"
    return pick(rng, words.OPENERS) + text + _sometimes_on(scene.background, rng)


def _single(scene: Scene, rng: np.random.Generator) -> str:
    """One figure, of perhaps many."""
    return pick(rng, words.OPENERS) + _figure(pick(rng, scene.figures), rng) + _on(scene.background, rng)


def _count(scene: Scene, rng: np.random.Generator) -> str:
    """How many figures there are of each shape, the most frequent first; no colours."""
    phrases = []
    for shape, count in Counter(figure.shape for figure in scene.figures).most_common():
        nouns = words.NOUNS if count == 1 else words.PLURALS
        phrases.append(f"{words.NUMBERS[count]} {pick(rng, nouns[shape])}")
    return pick(rng, words.OPENERS_OF_COUNTS) + " and ".join(phrases) + _sometimes_on(scene.background, rng)


def _vague(scene: Scene, rng: np.random.Generator) -> str:
    """A distractor: that there is something, and the background."""
    count = len(scene.figures)
    number = words.NUMBERS[count]
    if rng.random() >= _SAYS_NUMBER:
        number = pick(rng, words.SOME if count > 1 else words.A_SINGLE)
    noun = pick(rng, words.ANYTHING) + ("s" if count > 1 else "")
    return f"{number} {noun}{_on(scene.background, rng)}"


_TEMPLATES: tuple[Callable[[Scene, np.random.Generator], str | None], ...] = (
    *[_inventory] * 3,
    *[_relation] * 3,
    *[_placed] * 2,
    _single,
    _count,
)


def _figure(figure: Figure, rng: np.random.Generator) -> str:
    """An article, perhaps a size, mostly a colour, and a noun. Medium figures have no word for their size."""
    parts = [pick(rng, words.NOUNS[figure.shape])]
    if rng.random() < _SAYS_COLOUR:
        parts.insert(0, pick(rng, words.COLOURS[figure.colour]))
    if figure.size in words.SIZES and rng.random() < _SAYS_SIZE:
        parts.insert(0, pick(rng, words.SIZES[figure.size]))
    return _with_article(" ".join(parts))


def _sometimes_on(background: Background, rng: np.random.Generator) -> str:
    return _on(background, rng) if rng.random() < _SAYS_BACKGROUND else ""


def _on(background: Background, rng: np.random.Generator) -> str:
    """Its pattern, its tint or both."""
    pattern, tint = pick(rng, words.PATTERNS[background.pattern]), pick(rng, words.TINTS[background.tint])
    seen = pick(rng, (pattern, tint, f"{pattern} {tint}"))
    return f" on {_with_article(seen)} {pick(rng, words.BACKGROUNDS)}"


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase.startswith(words.VOWELS) else 'a'} {phrase}"
