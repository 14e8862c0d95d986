"""A query, the limits of its hits, and its answer.

A query is a sentence, or parts of text and pictures that are added or subtracted:

    query  = sentence | [operator] part operator part ...
    part   = (text | "text" | file.jpg | image:ID | image:"ID") [:weight]

An operator is a + or - outside of quotes with white space, or an end of the query, on both sides. A
query without an operator between two parts is a sentence and stays unchanged. One exception is text
in quotes that contains an operator or ends as the name of a picture's file. ``picture_name``
recognises a query that is the name of a picture's file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from vse_pipe.core.errors import UsageError

TEXT, PHOTO, IMAGE = "text", "photo", "image"
IMAGES, CAPTIONS = "images", "captions"
TO_IMAGES, TO_CAPTIONS = "text_to_image", "image_to_text"
# Endings of picture files; text with such an ending belongs in quotes.
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
_MOST, _HEAVIEST = 32, 1000
_SHOWN = 40
_OPERATOR = re.compile(r"(?<!\S)[+-](?!\S)")
_QUOTED = re.compile(r'(?<!\S)(?:image:)?"[^"]*"')
_WEIGHT = r"(?::(?P<weight>[+-]?[0-9]*\.?[0-9]+))?"
_ONE = re.compile(_QUOTED.pattern + _WEIGHT)
_FORMS = (
    (IMAGE, re.compile(rf'image:"(?P<value>[^"]*)"{_WEIGHT}')),
    (IMAGE, re.compile(rf'image:(?P<value>[^"\s].*?){_WEIGHT}', re.DOTALL)),
    (TEXT, re.compile(rf'"(?P<value>[^"]*)"{_WEIGHT}')),
    (PHOTO, re.compile(rf'(?P<value>[^"].*?(?i:{"|".join(map(re.escape, PICTURES))})){_WEIGHT}', re.DOTALL)),
    (TEXT, re.compile(rf'(?P<value>[^"].*?){_WEIGHT}', re.DOTALL)),
)


@dataclass(frozen=True)
class Limits:
    """k: maximum number of hits; offset: number of better hits to skip; to: IMAGES, CAPTIONS or
    None, as in ``direction``; where: conditions as of ``Catalogue.fitting``."""

    k: int = 10
    to: str | None = None
    where: tuple[str, ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class Term:
    """kind: TEXT, PHOTO or IMAGE; value: the text, the name of the file or the data set's id of the
    image; weight: not 0, negative for a subtracted part; content: the bytes of the file of a
    PHOTO."""

    kind: str
    value: str
    weight: float = 1.0
    content: bytes | None = None


def parse(text: str, files: bool = True) -> tuple[Term, ...]:
    """The parts of a query, one of weight 1 for a sentence. files: may the query name files of this
    machine?

    Raises UsageError for an operator without a part, a quote without its end, an invalid weight, and a
    query with subtracted parts only.
    """
    stripped = text.strip()
    bounds = _bounds(stripped)
    if bounds is None:
        return (Term(TEXT, text),)
    starts = bounds if bounds[:1] == [0] else [-1, *bounds]
    ends = [*starts[1:], len(stripped)]
    bodies = [(start, stripped[start + 1 : end]) for start, end in zip(starts, ends, strict=True)]
    signed = [(stripped[start] if start >= 0 else "+", body) for start, body in bodies]
    if len(signed) > _MOST:
        raise UsageError(f"a query of {len(signed)} parts; {_MOST} are the most")
    parts = tuple(_part(sign, body.strip()) for sign, body in signed)
    _check(parts, files)
    return parts


def picture_name(text: str) -> str | None:
    """``text`` if it ends as the name of a picture's file and is one part, else None."""
    name = text.strip()
    return name if _bounds(name) is None and not name.startswith('"') and name.lower().endswith(PICTURES) else None


def direction(parts: Sequence[Term], to: str | None = None, captions: int = 1) -> str:
    """TO_IMAGES or TO_CAPTIONS. to: IMAGES, CAPTIONS, or None, which means captions for a query of
    pictures alone, if there are any, else images; captions: their number. Raises UsageError for
    another ``to``."""
    if to not in (None, IMAGES, CAPTIONS):
        raise UsageError(f"search for {IMAGES} or {CAPTIONS}, not for {to!r}")
    if to is None:
        to = IMAGES if not captions or any(part.kind == TEXT for part in parts) else CAPTIONS
    return TO_IMAGES if to == IMAGES else TO_CAPTIONS


def literal(text: str) -> str:
    """A query for exactly this text. If it needs double quotes around it, its own are removed."""
    return text if _bounds(text.strip()) is None else '"' + text.replace('"', "") + '"'


def described(parts: Sequence[Term]) -> str:
    """The query in words, ``2 x 'dog' + picture 'pool.jpg' - 'fruit'``; one part without marks."""
    if len(parts) == 1:
        return f"image {parts[0].value}" if parts[0].kind == IMAGE else parts[0].value
    text = ""
    for part in parts:
        sign = "-" if part.weight < 0 else "+"
        times = "" if abs(part.weight) == 1 else f"{abs(part.weight):g} x "
        kind = {TEXT: "", PHOTO: "picture ", IMAGE: "image "}[part.kind]
        text += f" {sign} {times}{kind}'{part.value}'"
    return text.removeprefix(" + ").strip()


def _bounds(text: str) -> list[int] | None:
    """Places of the operators of a query; None for a sentence."""
    masked = _QUOTED.sub(lambda quoted: "q" * len(quoted[0]), text)
    bounds = [place.start() for place in _OPERATOR.finditer(masked)]
    inner = any(0 < place < len(text) - 1 for place in bounds)
    named = text.startswith('"') and text.rstrip('"').lower().endswith(PICTURES)
    return bounds if inner or (_ONE.fullmatch(text) and (_OPERATOR.search(text) or named)) else None


def _part(sign: str, body: str) -> Term:
    if not body:
        raise UsageError(f"nothing stands behind a {sign} of the query; put text that holds + or - in double quotes")
    for kind, form in _FORMS:
        if match := form.fullmatch(body):
            return Term(kind, match["value"], _weight(match["weight"], body) * (-1 if sign == "-" else 1))
    raise UsageError(f"{_short(body)}: a part that begins with a double quote ends with one, or with one and :weight")


def _weight(text: str | None, body: str) -> float:
    weight = 1.0 if text is None else float(text)
    if not 0 < weight <= _HEAVIEST:
        raise UsageError(
            f"{_short(body)}: a weight is above 0 and at most {_HEAVIEST}; text that ends so belongs in quotes"
        )
    return weight


def _check(parts: Sequence[Term], files: bool) -> None:
    if all(part.weight < 0 for part in parts):
        raise UsageError("everything in the query is taken away; name something to look for")
    for part in parts:
        if part.kind == PHOTO and not files:
            raise UsageError(
                f"{_short(part.value)}: no file is opened by its name here; name an image of the data set as image:ID, or put text that ends so in quotes"
            )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


# Characters of an unknown word in a message.
_WIDEST = 40


@dataclass(frozen=True)
class Hit:
    """rank: from 1; score: under the criterion, larger is closer; image_id, caption_id: ids of the
    data set, numbers or text; caption_id: None if images are searched.

    text: the caption, or the image's first caption (may be empty); file: name in images.parquet,
    relative to the data set's root; width, height: pixels of the upright picture, 0 for an image
    that exists only as features.
    """

    rank: int
    score: float
    image_id: int | str
    caption_id: int | str | None
    text: str
    file: str
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Answer:
    """query: the sentence, or the name of the file or image; hits: best first; unknown: words that
    the run's vocabulary lacks; seconds: from the query to the hits; notes: remarks on the query.

    parts: kind, value and weight of each part, empty for a query of one part; narrowed: the limits
    of the hits, ``where`` with ``left``, the number of items that fit it; regions: of each hit, see ``Network.regions``, empty unless a sentence finds images by their regions."""

    query: str
    run: str
    inference: str
    hits: tuple[Hit, ...]
    unknown: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    parts: tuple[dict, ...] = ()
    narrowed: dict = field(default_factory=dict)
    regions: tuple[list[dict], ...] = ()


def shortened(word: str) -> str:
    return word if len(word) <= _WIDEST else f"{word[:_WIDEST]}..."
