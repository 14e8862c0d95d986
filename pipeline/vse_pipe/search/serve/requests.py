"""Strict parsing of requests, with a plain sentence for every wrong value, and uploads of photos."""

import io
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import anyio
from PIL import Image
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from vse_pipe.core.errors import InputError, UsageError, missing
from vse_pipe.core.text import LONGEST
from vse_pipe.search.query import CAPTIONS, IMAGES
from vse_pipe.search.serve.site import is_of_this_site, later

MAX_TEXT = 1000
MAX_K = 100
DEFAULT_K = 10
# Bytes of an upload; a photo of a telephone has 3 to 12 MB.
MAX_UPLOAD = 20_000_000
FIELDS = ("text", "image_id", "k", "offset", "inference", "to", "where", "group", "min_probability")
# Last result that can be requested; grouped results are fewer, because each is compared with all items.
DEEPEST, DEEPEST_GROUPED = 10_000, 300
_INT64 = 2**63
# Seconds from the head of the request to the end of the photo: 20 MB at 1.3 Mbit/s.
UPLOAD_SECONDS = 120.0
# Bytes of all uploads at a time.
TOGETHER = 20 * MAX_UPLOAD
_TOO_LARGE = f"the upload is too large: {MAX_UPLOAD // 10**6} MB are the most"
# Formats that Pillow decodes without another program, unlike EPS.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000
# Of a processor, to decode one; 50 megapixels take 0.6 at most, 18 MB of empty chunks of a PNG 4.
DECODE_SECONDS = 3.0


@dataclass(frozen=True)
class Query:
    """One search: exactly one of ``text``, ``image_id`` and ``photo`` is set. k: number of results after the first
    ``offset``; to, where, group, least: as in ``vse_pipe.search.query.Limits``."""

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
    """The query in the name-value pairs of a form or an address; None if they contain none.

    inferences: the available criteria, the first is the default. photo: the content of an upload, instead of text and
    image_id. named: are ids text? Raises UsageError with a sentence for the visitor.
    """
    fields = _once(values)
    k = _integer("k", fields.get("k", str(DEFAULT_K)), 1, MAX_K)
    narrowed = _narrowed(fields, k)
    inference = _member(fields.get("inference"), inferences)
    subjects = [name for name in ("text", "image_id") if name in fields]
    if photo is not None and subjects:
        raise UsageError(f"a photo and {subjects[0]} exclude each other: ask for one of them")
    if len(subjects) > 1:
        raise UsageError("text and image_id exclude each other: ask for one of them")
    if photo is not None:
        return Query(k, inference, photo=photo, **narrowed)
    if "text" in fields:
        return Query(k, inference, text=_sentence(fields["text"]), **narrowed)
    if "image_id" in fields:
        return Query(k, inference, image_id=image_id(fields["image_id"], named), **narrowed)
    return None


def _narrowed(fields: dict[str, str], k: int) -> dict[str, Any]:
    """The limits in the fields; empty fields of a form do not count."""
    group = _share("group", "a cosine", fields["group"]) if fields.get("group") else None
    named = "min_probability"
    least = _share(named, "a probability", fields[named]) if fields.get(named) else None
    offset = _integer("offset", fields.get("offset") or "0", 0, DEEPEST)
    if group is not None and offset + k > DEEPEST_GROUPED:
        raise UsageError(f"grouped, the first {DEEPEST_GROUPED} results can be asked for, not those to {offset + k:,}")
    to = fields.get("to") or None
    if to not in (None, IMAGES, CAPTIONS):
        raise UsageError(f"to must be {IMAGES} or {CAPTIONS}, got {to[:40]!r}")
    where = fields.get("where", "").strip() or None
    if where is not None and len(where) > MAX_TEXT:
        raise UsageError(f"the condition has {len(where):,} characters; {MAX_TEXT:,} are the most")
    return {"offset": offset, "to": to, "where": where, "group": group, "least": least}


def _share(name: str, kind: str, value: str) -> float:
    if re.fullmatch(r"[0-9]{0,2}\.?[0-9]{1,9}", value) and 0 < float(value) <= 1:
        return float(value)
    raise UsageError(f"{name} must be {kind} above 0 and at most 1, got {value[:40]!r}")


def image_id(value: str, named: bool = False) -> int | str:
    """The id. Raises UsageError unless ``value`` is a decimal 64-bit integer, or for text ids unless it is short
    enough."""
    if not named:
        return _integer("image_id", value, -_INT64, _INT64 - 1)
    if len(value) > LONGEST:
        raise UsageError(f"an image_id has at most {LONGEST} characters, this one {len(value):,}")
    return value


def _once(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in values:
        if name not in FIELDS:
            raise UsageError(missing(f"unknown field {name[:40]!r}", name, FIELDS))
        if name in fields:
            raise UsageError(f"{name} is given twice")
        fields[name] = value
    return fields


def _integer(name: str, value: str, low: int, high: int) -> int:
    # int() also accepts spaces, underscores and digits of other scripts.
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


class Uploads:
    """Uploads of photos to one server, with limits of origin, size and time."""

    def __init__(self) -> None:
        self._pending = 0

    async def read(self, request: Request) -> tuple[list[tuple[str, str]], bytes]:
        """The plain fields of a form and the content of its field ``photo``. Raises UsageError, HTTPException."""
        if not is_of_this_site(request):
            raise HTTPException(403, "forms of other sites are not answered")
        declared = request.headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared) > MAX_UPLOAD:
            raise HTTPException(413, _TOO_LARGE)
        size = 0

        async def receive() -> Message:
            nonlocal size
            message = await request.receive()
            more = len(message.get("body", b""))
            size += more
            self._pending += more
            if size > MAX_UPLOAD:
                raise HTTPException(413, _TOO_LARGE)
            if self._pending > TOGETHER:
                raise later(503, "too many photos are being sent; try again in a moment")
            return message

        try:
            with anyio.fail_after(UPLOAD_SECONDS):
                return await _form(Request(request.scope, receive))
        except TimeoutError:
            raise HTTPException(408, f"the photo was not there after {UPLOAD_SECONDS:.0f} seconds") from None
        finally:
            self._pending -= size


async def _form(request: Request) -> tuple[list[tuple[str, str]], bytes]:
    async with request.form(max_files=1, max_fields=8, max_part_size=10_000) as form:
        values, photo = [], b""
        for name, value in form.multi_items():
            if isinstance(value, str):
                values.append((name, value))
            elif name == "photo":
                photo = await value.read()
    if not photo:
        raise UsageError("choose a photo to search with (multipart/form-data, field photo)")
    return values, photo


class _Slow(Exception):
    """The picture has taken DECODE_SECONDS."""


class _Timed(io.BytesIO):
    """The bytes of a picture, for one thread. ``read`` raises _Slow when the thread has spent DECODE_SECONDS on them."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._end = time.thread_time() + DECODE_SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        if time.thread_time() > self._end:
            raise _Slow
        return super().read(size)


def check_upload(content: bytes) -> None:
    """Raises InputError unless ``content`` decodes, in DECODE_SECONDS, as a picture in one of ``FORMATS`` with at most
    MAX_PIXELS. For a worker thread.

    A file of 50 kB can claim 400 megapixels: they are refused by the header.
    """
    timed = _Timed(content)
    try:
        with Image.open(timed, formats=FORMATS) as opened:
            if (pixels := opened.width * opened.height) <= MAX_PIXELS:
                opened.load()
                timed.read(0)
    except _Slow as error:
        raise InputError(f"the picture takes more than {DECODE_SECONDS:g} s to decode; save it anew") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"the picture is too large: {MAX_PIXELS // 10**6} megapixels are the most") from error
    except MemoryError:
        raise
    except Exception as error:  # of damaged bytes Pillow raises nearly any
        raise InputError(f"the file is no picture that can be read; known: {', '.join(FORMATS)}") from error
    if pixels > MAX_PIXELS:
        raise InputError(f"the picture has {pixels / 1e6:,.0f} megapixels; {MAX_PIXELS // 10**6} are the most")
