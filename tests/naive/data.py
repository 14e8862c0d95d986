"""Plain-loop oracles of the prepare stage."""

import hashlib
import itertools
import math
import re
from collections.abc import Sequence


def hashed_split(seed: int, image: str, val: float, test: float) -> str:
    """The split of one image: the first 63 bits of a sha256, read as a fraction."""
    digits = hashlib.sha256(f"{seed}\x1fsplit\x1f{image}".encode()).hexdigest()[:16]
    fraction = (int(digits, 16) // 2) / 2**63
    if fraction < test:
        return "test"
    if fraction < test + val:
        return "val"
    return "train"


def vsepp_image_rows(images: int, captions: int) -> list[int]:
    """The row of features that VSE++'s loader pairs each caption with: caption // 5 when the counts differ."""
    div = 1 if images == captions else 5
    return [caption // div for caption in range(captions)]


def runs(values: list) -> list[int]:
    """Lengths of the stretches of equal neighbours."""
    lengths = []
    for position, value in enumerate(values):
        if position and value == values[position - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def divides_all(lengths: list[int]) -> int:
    """The largest number that divides every length."""
    return max(d for d in range(1, min(lengths) + 1) if all(length % d == 0 for length in lengths))


def entities_sentence(line: str) -> tuple[str, list[tuple[int, str, str, list[str]]]]:
    """A line of Flickr30k Entities word by word: the caption, and of each phrase its first word's number, its words, chain and
    types. For lines whose words stand one space apart."""
    words, phrases, inside = [], [], False
    for token in line.split(" "):
        if token.startswith("["):
            _, chain, *types = token[1:].split("/")
            phrases.append((len(words), [], chain.removeprefix("EN#"), types))
            inside = True
            continue
        words.append(token.removesuffix("]") if inside else token)
        if inside:
            phrases[-1][1].append(words[-1])
            inside = not token.endswith("]")
    return " ".join(words), [(first, " ".join(named), chain, types) for first, named, chain, types in phrases]


# Synonyms of each value, itself the first of them.
SHAPES = (
    "circle disc ball dot, square box block, triangle wedge, star, heart, cross plus-sign, ring hoop, diamond rhombus"
)
COLOURS = "red crimson, orange, yellow golden, green, blue, purple violet, black dark"
SIZES = "small little tiny, large big huge"
PATTERNS = "plain uniform, striped diagonally-striped, checked chequered, dotted polka-dot, shaded fading"
TINTS = "white, grey silver, beige cream, pink rose, mint pale-green"
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
JOINED = ("plus sign", "diagonally striped", "polka dot", "pale green")
OPENERS = ("there is ", "a picture of ", "an image with ", "we see ")
RELATIONS = {
    phrase: holds
    for phrases, holds in {
        "to the left of, left of": lambda a, b: a.x < b.x,
        "to the right of, right of": lambda a, b: a.x > b.x,
        "above, over": lambda a, b: a.y < b.y,
        "below, under": lambda a, b: a.y > b.y,
        "next to, beside, close to": lambda a, b: distance(a, b) < 0.48,
    }.items()
    for phrase in phrases.split(", ")
}


def distance(a, b) -> float:
    return ((a.x - b.x) ** 2 + (a.y - b.y) ** 2) ** 0.5


def meaning(word: str, dictionary: str) -> str | None:
    found = (synonyms.split() for synonyms in dictionary.split(", "))
    return next((value for value, *others in found if word in (value, *others)), None)


def kind(caption: str) -> str:
    """``vague``, ``count``, ``relation``, ``place`` or ``list``."""
    text, _ = split_background(caption)
    words = text.split()
    if words[-1].rstrip("s") in ("shape", "figure", "object"):
        return "vague"
    if words[0] in NUMBERS:
        return "count"
    if any(f" {phrase} " in text for phrase in RELATIONS):
        return "relation"
    return "place" if split_place(text)[1] else "list"


def true_of(caption: str, scene) -> bool:
    """Raises ValueError on a word that has no meaning here."""
    text, background = split_background(caption)
    if not background_holds(background, scene.background):
        return False
    return {
        "vague": vague_holds,
        "count": count_holds,
        "relation": relation_holds,
        "place": place_holds,
        "list": list_holds,
    }[kind(caption)](text, scene)


def split_background(caption: str) -> tuple[str, list[str]]:
    """The caption without opener and background, and the words that describe the background."""
    for opener in OPENERS:
        caption = caption.removeprefix(opener)
    for phrase in JOINED:
        caption = caption.replace(phrase, phrase.replace(" ", "-"))
    match = re.fullmatch(r"(.*) on an? ([a-z -]+) (background|backdrop)", caption)
    return (match[1], match[2].split()) if match else (caption, [])


def split_place(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?) ((?:on|at|in) the .*)", text)
    return (match[1], match[2]) if match else (text, "")


def background_holds(words: list[str], background) -> bool:
    for word in words:
        pattern, tint = meaning(word, PATTERNS), meaning(word, TINTS)
        if pattern is None and tint is None:
            raise ValueError(f"background word {word!r}")
        if pattern not in (None, background.pattern) or tint not in (None, background.tint):
            return False
    return True


def fits(phrase: str, figure) -> bool:
    """Is ``a small red disc`` true of this figure?"""
    article, *words = phrase.split()
    if article not in ("a", "an") or (article == "an") != (words[0][0] in "aeio"):
        raise ValueError(f"article of {phrase!r}")
    for word in words:
        tables = (SHAPES, figure.shape), (COLOURS, figure.colour), (SIZES, figure.size)
        said = [(value, actual) for table, actual in tables if (value := meaning(word, table)) is not None]
        if len(said) != 1:
            raise ValueError(f"word {word!r} of {phrase!r}")
        if said[0][0] != said[0][1]:
            return False
    return True


def list_holds(text: str, scene) -> bool:
    """Can every phrase be given a figure of its own?"""
    phrases = re.split(r", | and ", text)
    orders = itertools.permutations(scene.figures, len(phrases))
    return any(all(fits(p, f) for p, f in zip(phrases, order, strict=True)) for order in orders)


def relation_holds(text: str, scene) -> bool:
    phrase = next(phrase for phrase in RELATIONS if f" {phrase} " in text)
    first, second = text.split(f" {phrase} ")
    pairs = itertools.permutations(scene.figures, 2)
    return any(fits(first, a) and fits(second, b) and RELATIONS[phrase](a, b) for a, b in pairs)


def place_holds(text: str, scene) -> bool:
    phrase, where = split_place(text)
    return any(fits(phrase, figure) and stands(figure, where.split()) for figure in scene.figures)


def stands(figure, words: list[str]) -> bool:
    if "middle" in words or "centre" in words:
        return 0.4 <= figure.x <= 0.6 and 0.4 <= figure.y <= 0.6
    left, right, upper, lower = figure.x < 0.4, figure.x > 0.6, figure.y < 0.4, figure.y > 0.6
    known = {"left": left, "right": right, "top": upper, "upper": upper, "bottom": lower, "lower": lower}
    claims = [known[word] for word in words if word in known]
    if not claims:
        raise ValueError(f"place {words}")
    return all(claims)


def count_holds(text: str, scene) -> bool:
    """Every shape of the scene is named once, with its number."""
    claimed: dict[str, int] = {}
    for phrase in text.split(" and "):
        number, noun = phrase.split()
        singular = [n for n in (noun, noun.removesuffix("s"), noun.removesuffix("es")) if meaning(n, SHAPES)]
        if not singular or (NUMBERS[number] == 1) != (singular[0] == noun):
            raise ValueError(f"number of {phrase!r}")
        claimed[meaning(singular[0], SHAPES)] = NUMBERS[number]
    actual: dict[str, int] = {}
    for figure in scene.figures:
        actual[figure.shape] = actual.get(figure.shape, 0) + 1
    return claimed == actual


def vague_holds(text: str, scene) -> bool:
    *number, noun = text.split()
    several = noun.endswith("s")
    if number[0] in NUMBERS:
        return NUMBERS[number[0]] == len(scene.figures) and several == (len(scene.figures) > 1)
    return several == (len(scene.figures) > 1) and several == (number != ["a", "single"])


def singular_phrases(caption: str) -> list[str]:
    """The noun phrases of a caption that name one figure, in their order."""
    text, _ = split_background(caption)
    relation = next((phrase for phrase in RELATIONS if f" {phrase} " in text), "and")
    phrases = re.split(rf", | and | {relation} ", split_place(text)[0])
    return [phrase for phrase in phrases if re.match("(an?|one) (?!few)", phrase)]


def true_in_order(caption: str, figures: list) -> bool:
    """Does each phrase of ``singular_phrases`` fit its figure, and do they stand as the caption says?"""
    text, _ = split_background(caption)
    phrases = [re.sub("^one ", "a ", phrase) for phrase in singular_phrases(caption)]
    if kind(caption) != "vague" and not all(
        fits(phrase, figure) for phrase, figure in zip(phrases, figures, strict=True)
    ):
        return False
    relation = next((phrase for phrase in RELATIONS if f" {phrase} " in text), None)
    if relation is not None and not RELATIONS[relation](*figures):
        return False
    place = split_place(text)[1]
    return not place or stands(figures[0], place.split())


def changes(scene, other) -> int:
    """How many attributes of figures and background differ; figures that exchange shape and colour count once."""
    if len(scene.figures) != len(other.figures):
        return 99
    count = (scene.background.pattern != other.background.pattern) + (scene.background.tint != other.background.tint)
    differing = []
    for a, b in zip(scene.figures, other.figures, strict=True):
        fields = [f for f in ("shape", "colour", "size", "x", "y", "tilt") if getattr(a, f) != getattr(b, f)]
        if fields:
            differing.append((a, b, fields))
    if len(differing) == 2:
        (a, b, _), (c, d, _) = differing
        swapped = (a.shape, a.colour) == (d.shape, d.colour) and (c.shape, c.colour) == (b.shape, b.colour)
        layout = all(not {"size", "x", "y", "tilt"} & set(fields) for *_, fields in differing)
        if swapped and layout:
            return count + 1
    return count + sum(len(fields) for *_, fields in differing)


Box = list[float]


def _span(place: int, count: int, size: int) -> tuple[int, int]:
    return math.floor(place * size / count), math.ceil((place + 1) * size / count)


def cells(rows: int, columns: int, height: int, width: int, window: Box) -> list[Box]:
    """The cells' edges in the picture; window: the edges of what the map covers."""
    x1, y1, x2, y2 = window
    found = []
    for row in range(rows):
        for column in range(columns):
            (left, right), (top, bottom) = _span(column, columns, width), _span(row, rows, height)
            xs = [x1 + (x2 - x1) * x / width for x in (left, right)]
            ys = [y1 + (y2 - y1) * y / height for y in (top, bottom)]
            found.append([xs[0], ys[0], xs[1], ys[1]])
    return found


def pooled(image: list[list[float]], rows: int, columns: int, pool) -> list[float]:
    """``pool`` of the numbers of each cell, row by row."""
    found = []
    for row in range(rows):
        for column in range(columns):
            ys, xs = range(*_span(row, rows, len(image))), range(*_span(column, columns, len(image[0])))
            found.append(pool([image[y][x] for y in ys for x in xs]))
    return found


def overlap(a: Sequence[float], b: Sequence[float], last: float = 0.0) -> float:
    """Intersection over union. last: 1 where right and lower pixels belong to the boxes, 0 where they are edges."""
    width = min(a[2], b[2]) - max(a[0], b[0]) + last
    height = min(a[3], b[3]) - max(a[1], b[1]) + last
    inter = max(0.0, width) * max(0.0, height)
    areas = [(x2 - x1 + last) * (y2 - y1 + last) for x1, y1, x2, y2 in (a, b)]
    return inter / (sum(areas) - inter)


def suppressed(boxes: Sequence, scores: list[float], threshold: float, last: float = 0.0) -> list[int]:
    """Greedy non-maximum suppression: what is left, best first; of equal scores the first comes first."""
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[i], boxes[j], last) <= threshold for j in kept):
            kept.append(i)
    return kept


def relaxed(boxes: list[Box], scores: list[float], count: int, thresholds: list[float]) -> list[int]:
    """The best ``count`` of the first threshold that leaves as many; else all of the last, filled with the best others."""
    kept: list[int] = []
    for threshold in thresholds:
        kept = suppressed(boxes, scores, threshold)
        if len(kept) >= count:
            return kept[:count]
    order = sorted(range(len(boxes)), key=lambda i: (-scores[i], i))
    others = [i for i in order if i not in kept]
    chosen = kept + others[: count - len(kept)]
    return [i for i in order if i in chosen]


def image_level(captions: list[int], n_images: int, rate: float, rng) -> list[int]:
    """Shuffle the images, let the first share exchange places; every caption follows its image."""
    order = list(range(n_images))
    rng.shuffle(order)
    chosen = order[: int(rate * n_images)]
    targets = list(chosen)
    rng.shuffle(targets)
    moved = dict(zip(chosen, targets, strict=True))
    return [moved.get(image, image) for image in captions]


def caption_level(captions: list[int], rate: float, rng) -> list[int]:
    """Shuffle the captions, let the images of the first share exchange places."""
    order = list(range(len(captions)))
    rng.shuffle(order)
    chosen = order[: int(rate * len(captions))]
    targets = [captions[place] for place in chosen]
    rng.shuffle(targets)
    shown = list(captions)
    for place, target in zip(chosen, targets, strict=True):
        shown[place] = target
    return shown
