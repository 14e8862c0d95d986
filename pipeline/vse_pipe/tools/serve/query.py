"""What a request asks for, read strictly: every wrong value is one plain sentence, never a guess."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from vse_pipe.core.errors import UsageError
from vse_pipe.core.text_ids import LONGEST
from vse_pipe.core.unknown import missing
from vse_pipe.tools.search.query import CAPTIONS, IMAGES

MAX_TEXT = 1000
MAX_K = 100
DEFAULT_K = 10
# Of the whole upload: a photo of a telephone has 3 to 12 MB.
MAX_UPLOAD = 20_000_000
FIELDS = ("text", "image_id", "k", "offset", "inference", "to", "where", "group", "min_probability")
# How far results can be leafed through; where what is alike is one result, each is compared with all items.
DEEPEST, DEEPEST_GROUPED = 10_000, 300
_INT64 = 2**63


@dataclass(frozen=True)
class Query:
    """One search: exactly one of ``text``, ``image_id`` and ``photo`` is set. ``k``: how many results, after the first
    ``offset``; ``to``, ``where``, ``group``, ``least``: as ``vse_pipe.tools.search.query.Wanted`` has them."""

    k: int
    inference: str
    text: str | None = None
    image_id: int | str | None = None
    photo: bytes | None = None
    offset: int = 0
    to: str | None = None
    where: str | None = None
    group: float | None = None
    least: float | None = None


def read(
    values: Iterable[tuple[str, str]], inferences: Collection[str], photo: bytes | None = None, named: bool = False
) -> Query | None:
    """The query in the name-value pairs of a form or an address; None when they ask for nothing.

    inferences: the criteria that can be asked for, the first is the default. photo: the content of an upload, which
    stands in place of text and image_id. named: whether ids are text. Raises UsageError with the sentence to show.
    """
    given = _once(values)
    k = _integer("k", given.get("k", str(DEFAULT_K)), 1, MAX_K)
    narrowed = _narrowed(given, k)
    inference = _member(given.get("inference"), inferences)
    asked = [name for name in ("text", "image_id") if name in given]
    if photo is not None and asked:
        raise UsageError(f"a photo and {asked[0]} exclude each other: ask for one of them")
    if len(asked) > 1:
        raise UsageError("text and image_id exclude each other: ask for one of them")
    if photo is not None:
        return Query(k, inference, photo=photo, **narrowed)
    if "text" in given:
        return Query(k, inference, text=_sentence(given["text"]), **narrowed)
    if "image_id" in given:
        return Query(k, inference, image_id=image_id(given["image_id"], named), **narrowed)
    return None


def _narrowed(given: dict[str, str], k: int) -> dict[str, Any]:
    """Boxes that a form sends empty count as not filled in."""
    group = _share("group", "a cosine", given["group"]) if given.get("group") else None
    named = "min_probability"
    least = _share(named, "a probability", given[named]) if given.get(named) else None
    offset = _integer("offset", given.get("offset") or "0", 0, DEEPEST)
    if group is not None and offset + k > DEEPEST_GROUPED:
        raise UsageError(f"grouped, the first {DEEPEST_GROUPED} results can be asked for, not those to {offset + k:,}")
    to = given.get("to") or None
    if to not in (None, IMAGES, CAPTIONS):
        raise UsageError(f"to must be {IMAGES} or {CAPTIONS}, got {to[:40]!r}")
    where = given.get("where", "").strip() or None
    if where is not None and len(where) > MAX_TEXT:
        raise UsageError(f"the condition has {len(where):,} characters; {MAX_TEXT:,} are the most")
    return {"offset": offset, "to": to, "where": where, "group": group, "least": least}


def _share(name: str, what: str, value: str) -> float:
    if re.fullmatch(r"[0-9]{0,2}\.?[0-9]{1,9}", value) and 0 < float(value) <= 1:
        return float(value)
    raise UsageError(f"{name} must be {what} above 0 and at most 1, got {value[:40]!r}")


def image_id(value: str, named: bool = False) -> int | str:
    """Raises UsageError unless ``value`` is a decimal 64-bit integer or, of ids that are text, no longer than these are."""
    if not named:
        return _integer("image_id", value, -_INT64, _INT64 - 1)
    if len(value) > LONGEST:
        raise UsageError(f"an image_id has at most {LONGEST} characters, this one {len(value):,}")
    return value


def _once(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values:
        if name not in FIELDS:
            raise UsageError(missing(f"unknown field {name[:40]!r}", name, FIELDS))
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = value
    return found


def _integer(name: str, value: str, low: int, high: int) -> int:
    # int() alone would take spaces, underscores and the digits of other scripts.
    if re.fullmatch(r"-?[0-9]{1,19}", value) and low <= int(value) <= high:
        return int(value)
    bounds = f" from {low} to {high}" if high < _INT64 - 1 else ""
    raise UsageError(f"{name} must be a whole number{bounds}, got {value[:40]!r}")


def _member(value: str | None, inferences: Collection[str]) -> str:
    if value is None:
        return next(iter(inferences))
    if value not in inferences:
        raise UsageError(f"inference {value[:40]!r} is not served here; served: {', '.join(inferences)}")
    return value


def _sentence(value: str) -> str:
    text = " ".join(value.split())
    if not text:
        raise UsageError("type a sentence to search with")
    if len(text) > MAX_TEXT:
        raise UsageError(f"the sentence has {len(text):,} characters; {MAX_TEXT:,} are the most")
    return text
