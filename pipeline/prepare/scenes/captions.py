"""Describe a scene: whole inventories, relations, places, counts, single figures, and captions that name no figure.

Every caption is true of its scene; most are true of other scenes too. Captions that leave much out fit many images
(they make hubs), and a near duplicate shares all captions that do not mention what was changed.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

from pipeline.prepare.scenes import words
from pipeline.prepare.scenes.scene import Background, Figure, Scene, place, relations

_SAYS_COLOUR, _SAYS_SIZE, _SAYS_GROUND = 0.9, 0.45, 0.3
_ATTEMPTS = 20


def describe(scene: Scene, count: int, vague: float, rng: np.random.Generator) -> list[str]:
    """``count`` different captions, each vague with probability ``vague``; lower case, no final stop."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[_caption(scene, vague, rng)] = None
    return list(found)


def _caption(scene: Scene, vague: float, rng: np.random.Generator) -> str:
    if rng.random() < vague:
        return _vague(scene, rng)
    for _ in range(_ATTEMPTS):
        text = _pick(rng, _TEMPLATES)(scene, rng)
        if text is not None:
            return _opener(text, rng)
    return _opener(_single(scene, rng), rng)


def _opener(text: str, rng: np.random.Generator) -> str:
    return _pick(rng, words.OPENERS) + text


def _inventory(scene: Scene, rng: np.random.Generator) -> str:
    """Every figure, in any order."""
    order = rng.permutation(len(scene.figures))
    phrases = [_figure(scene.figures[i], rng) for i in order]
    listed = " and ".join([", ".join(phrases[:-1]), phrases[-1]]) if len(phrases) > 1 else phrases[0]
    return listed + _maybe_on(scene.background, rng)


def _relation(scene: Scene, rng: np.random.Generator) -> str | None:
    if len(scene.figures) < 2:
        return None
    first, second = (scene.figures[i] for i in rng.permutation(len(scene.figures))[:2])
    true = relations(first, second)
    if not true:
        return None
    between = _pick(rng, words.RELATIONS[_pick(rng, true)])
    return f"{_figure(first, rng)} {between} {_figure(second, rng)}{_maybe_on(scene.background, rng)}"


def _placed(scene: Scene, rng: np.random.Generator) -> str | None:
    figure = _pick(rng, scene.figures)
    where = place(figure)
    return None if where is None else f"{_figure(figure, rng)} {_pick(rng, words.PLACES[where])}{_maybe_on(scene.background, rng)}"


def _single(scene: Scene, rng: np.random.Generator) -> str:
    """One figure of possibly many."""
    return _figure(_pick(rng, scene.figures), rng) + _on(scene.background, rng)


def _tally(scene: Scene, rng: np.random.Generator) -> str:
    """How many figures of which shapes; no colour but perhaps that of all."""
    counts = Counter(figure.shape for figure in scene.figures)
    phrases = []
    for shape in sorted(counts, key=lambda name: (-counts[name], name)):
        noun = words.NOUNS if counts[shape] == 1 else words.PLURALS
        phrases.append(f"{words.NUMBERS[counts[shape]]} {_pick(rng, noun[shape])}")
    return " and ".join(phrases) + _maybe_on(scene.background, rng)


def _vague(scene: Scene, rng: np.random.Generator) -> str:
    count = len(scene.figures)
    noun = _pick(rng, words.ANYTHING) + ("s" if count > 1 else "")
    number = _pick(rng, ("some", "a few") if count > 1 else ("a single", "one")) if rng.random() < 0.5 else words.NUMBERS[count]
    return f"{number} {noun}{_on(scene.background, rng)}"


_TEMPLATES: tuple[Callable[[Scene, np.random.Generator], str | None], ...] = (
    _inventory, _inventory, _inventory, _relation, _relation, _relation, _placed, _placed, _single, _tally,
)


def _figure(figure: Figure, rng: np.random.Generator) -> str:
    parts = []
    if rng.random() < _SAYS_SIZE and figure.size != "medium":
        parts.append(_pick(rng, words.SIZES[figure.size]))
    if rng.random() < _SAYS_COLOUR:
        parts.append(_pick(rng, words.COLOURS[figure.colour]))
    return _with_article(" ".join([*parts, _pick(rng, words.NOUNS[figure.shape])]))


def _maybe_on(background: Background, rng: np.random.Generator) -> str:
    return _on(background, rng) if rng.random() < _SAYS_GROUND else ""


def _on(background: Background, rng: np.random.Generator) -> str:
    pattern, tint = _pick(rng, words.PATTERNS[background.pattern]), _pick(rng, words.TINTS[background.tint])
    ground = (pattern, tint, f"{pattern} {tint}")[int(rng.integers(3))]
    return f" on {_with_article(ground)} {_pick(rng, words.GROUNDS)}"


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase[0] in 'aeio' else 'a'} {phrase}"


def _pick(rng: np.random.Generator, values):
    return values[int(rng.integers(len(values)))]
