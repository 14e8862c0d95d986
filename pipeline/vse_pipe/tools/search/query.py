"""A query: a sentence, or parts of text and pictures that are added up and taken away, and how its hits are limited.

    query  = sentence | [operator] part operator part ...
    part   = (text | "text" | file.jpg | image:ID | image:"ID") [:weight]

An operator is a + or - with white space, or an end of the query, on both sides, and outside of quotes. A query without one
between two other things is a sentence and stays as it stands, whatever marks are in it, but for one that is text in quotes with an
operator or the name of a picture's file, and nothing else. What is the name of a picture's file and nothing else ``picture_name`` tells.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vse_pipe.core.errors import UsageError

TEXT, PHOTO, IMAGE = "text", "photo", "image"
IMAGES, CAPTIONS = "images", "captions"
TO_IMAGES, TO_CAPTIONS = "text_to_image", "image_to_text"
# How the name of a picture's file ends; text that does so belongs in quotes.
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
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
    """k: how many hits, fewer where fewer fit; offset: how many better ones are left out. to: IMAGES, CAPTIONS, None as of
    ``direction``. where: a condition on the columns of images.parquet, see ``catalogue.rows_where``. group: from which cosine on two items
    are alike, of which only the better is a hit. probability: is that of a match in the answer? least: the lowest of a hit."""

    k: int = 10
    to: str | None = None
    where: str | None = None
    group: float | None = None
    offset: int = 0
    probability: bool = False
    least: float | None = None

    def check(self) -> None:
        """Raises UsageError for numbers that mean nothing."""
        if self.k < 1:
            raise UsageError(f"k is {self.k}; ask for at least one result")
        if self.offset < 0:
            raise UsageError(f"offset is {self.offset}; the first result has 0")
        if self.least is not None and not 0 <= self.least <= 1:
            raise UsageError(f"--min-probability is from 0 to 1, got {self.least:g}")
        if self.group is not None and not 0 < self.group <= 1:
            raise UsageError(f"--group is a cosine above 0 and at most 1, got {self.group:g}")


@dataclass(frozen=True)
class Term:
    """kind: TEXT, PHOTO or IMAGE; value: the text, the name of the file or the image's id as the data set has it; weight:
    below 0 of what is taken away, never 0; content: of a PHOTO the bytes of its file."""

    kind: str
    value: str
    weight: float = 1.0
    content: bytes | None = None


def parse(text: str, files: bool = True) -> tuple[Term, ...]:
    """The parts of a query, one of weight 1 for a sentence. files: may it name files of this machine?

    Raises UsageError for an operator without a part, a quote without its end, a weight that is none, text for and against
    the same thing, and where everything is taken away.
    """
    stripped = text.strip()
    bounds = _bounds(stripped)
    if bounds is None:
        return (Term(TEXT, text),)
    starts = bounds if bounds[:1] == [0] else [-1, *bounds]
    ends = [*starts[1:], len(stripped)]
    signed = [
        (stripped[start] if start >= 0 else "+", stripped[start + 1 : end])
        for start, end in zip(starts, ends, strict=True)
    ]
    if len(signed) > _MOST:
        raise UsageError(f"a query of {len(signed)} parts; {_MOST} are the most")
    parts = tuple(_part(sign, body.strip()) for sign, body in signed)
    _check(parts, files)
    return parts


def picture_name(text: str) -> str | None:
    """``text`` where it ends as the name of a picture's file does and is no query of several parts, else None."""
    name = text.strip()
    return name if _bounds(name) is None and not name.startswith('"') and name.lower().endswith(PICTURES) else None


def direction(parts: Sequence[Term], to: str | None = None, captions: int = 1) -> str:
    """TO_IMAGES or TO_CAPTIONS. to: IMAGES, CAPTIONS, or None: captions where only pictures are asked with and there are any, else
    images; captions: how many there are. Raises UsageError for anything else."""
    if to not in (None, IMAGES, CAPTIONS):
        raise UsageError(f"search for {IMAGES} or {CAPTIONS}, not for {to!r}")
    if to is None:
        to = IMAGES if not captions or any(part.kind == TEXT for part in parts) else CAPTIONS
    return TO_IMAGES if to == IMAGES else TO_CAPTIONS


def literal(text: str) -> str:
    """A query that is this text alone, without its double quotes where others must be put around it."""
    return text if _bounds(text.strip()) is None else '"' + text.replace('"', "") + '"'


def described(parts: Sequence[Term]) -> str:
    """As it was understood: ``2 x 'dog' + picture 'pool.jpg' - 'fruit'``; one part alone without marks."""
    if len(parts) == 1:
        return f"image {parts[0].value}" if parts[0].kind == IMAGE else parts[0].value
    found = ""
    for part in parts:
        sign = "-" if part.weight < 0 else "+"
        times = "" if abs(part.weight) == 1 else f"{abs(part.weight):g} x "
        kind = {TEXT: "", PHOTO: "picture ", IMAGE: "image "}[part.kind]
        found += f" {sign} {times}{kind}'{part.value}'"
    return found.removeprefix(" + ").strip()


def _bounds(text: str) -> list[int] | None:
    """Where the operators of a query are; None for a sentence."""
    masked = _QUOTED.sub(lambda quoted: "q" * len(quoted[0]), text)
    found = [place.start() for place in _OPERATOR.finditer(masked)]
    inner = any(0 < place < len(text) - 1 for place in found)
    named = text.startswith('"') and text.rstrip('"').lower().endswith(PICTURES)
    return found if inner or (_ONE.fullmatch(text) and (_OPERATOR.search(text) or named)) else None


def _part(sign: str, body: str) -> Term:
    if not body:
        raise UsageError(f"nothing stands behind a {sign} of the query; put text that holds + or - in double quotes")
    for kind, form in _FORMS:
        if found := form.fullmatch(body):
            return Term(kind, found["value"], _weight(found["weight"], body) * (-1 if sign == "-" else 1))
    raise UsageError(f"{_short(body)}: a part that begins with a double quote ends with one, or with one and :weight")


def _weight(given: str | None, body: str) -> float:
    weight = 1.0 if given is None else float(given)
    if not 0 < weight <= _HEAVIEST:
        raise UsageError(
            f"{_short(body)}: a weight is above 0 and at most {_HEAVIEST}; text that ends so belongs in quotes"
        )
    return weight


def _check(parts: Sequence[Term], files: bool) -> None:
    if all(part.weight < 0 for part in parts):
        raise UsageError("everything in the query is taken away; name something to look for")
    signs: dict[tuple[str, str], bool] = {}
    for part in parts:
        if part.kind == PHOTO and not files:
            raise UsageError(
                f"{_short(part.value)}: no file is opened by its name here; name an image of the data set as image:ID, or put "
                "text that ends so in quotes"
            )
        if signs.setdefault((part.kind, part.value), part.weight < 0) != (part.weight < 0):
            raise UsageError(f"{_short(part.value)} is both asked for and taken away")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
