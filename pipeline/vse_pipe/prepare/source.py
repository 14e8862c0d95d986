"""The tables that every format returns, and the checks that all of them share."""

import codecs
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from vse_pipe.artifacts import captions, images, regions
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import files, memory
from vse_pipe.core.errors import InputError, MissingResource, UsageError

_LONGEST_LINE = 2**20
_FIRST = 3
_SPLITS = {"train": "train", "restval": "train", "val": "val", "dev": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class RegionRows:
    """table: the columns of ``vse_pipe.artifacts.regions``; source, recall: as of its ``write``."""

    table: pa.Table
    source: str
    recall: dict[str, dict]


@dataclass(frozen=True)
class Source:
    """images and captions: the columns of ``vse_pipe.artifacts.images`` and ``.captions``, in the
    order of the data set.

    root: the folder of the names in the column ``file``, relative to the project or absolute.
    broken: a line for each image that is missing or does not decode; the stage decides whether it
    stops. phrases: the columns of ``vse_pipe.artifacts.regions``, for data sets with boxes of
    phrases. regions: for a data set of boxes in the pictures of another data set. names: for text
    ids. left_out: a line for each file that could be a picture but is no row."""

    images: pa.Table
    captions: pa.Table
    root: str
    broken: list[str] = field(default_factory=list)
    phrases: pa.Table | None = None
    regions: RegionRows | None = None
    names: TextIds | None = None
    left_out: list[str] = field(default_factory=list)


def existing(source: Path) -> Path:
    """``source`` if it exists. Raises MissingResource, because no command makes raw data;
    UsageError for a URL, which only formats of shards can read."""
    if files.is_remote(source):
        raise UsageError(
            f"source {files.url(source)}: object storage is read by the formats webdataset and parquet alone"
        )
    if not source.exists():
        raise MissingResource(
            f"source {source} does not exist; put the data set there or correct `source` in params.yaml"
        )
    return source


def split_of(name: str, where: str) -> str:
    """train (restval), val (dev, validation) or test. Raises InputError."""
    if (split := _SPLITS.get(name.strip().lower())) is None:
        raise InputError(f"{where}: unknown split '{name}'; known: {', '.join(_SPLITS)}")
    return split


def file_name(name: str) -> str:
    """A picture's name in normal form: ``a/b.png`` for ``./a//b.png``. ``..`` and URLs stay."""
    if name.startswith("/") or "://" in name:
        return name
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def is_text(value: str) -> bool:
    """Can ``value`` be encoded as UTF-8? Some file names and escapes of JSON cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_repeated(places: dict[str, str], value: str, name: str, where: str) -> None:
    """Add ``value`` to earlier places. Raises InputError where it has one. name: of the value."""
    if (earlier := places.setdefault(value, where)) != where:
        raise InputError(f"{where}: {name} {value!r} was given to {earlier} already; it must be unique")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file without a byte order mark. Raises InputError for a file that needs
    more memory than allowed, else as ``read_lines``."""
    if path.is_file():
        memory.require_text(path)
        with contextlib.suppress(UnicodeDecodeError):
            return path.read_bytes().decode("utf-8-sig")
    return "".join(read_lines(path))  # names the line


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, split at ``\\n`` only: U+2028 and U+0085 are part of a caption.

    A byte order mark and a carriage return before the break are dropped, and the final newline may
    be missing. A line at a time is in memory. Raises MissingResource, and InputError with the line
    that is not UTF-8."""
    if not path.is_file():
        raise MissingResource(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{path} line {number}: longer than {_LONGEST_LINE} bytes")
            try:
                text = line.removesuffix(b"\n").decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path} line {number}: not UTF-8 text ({error.reason}); convert the file") from error
            yield text.removesuffix("\r")


_NUMBER, _TEXT = "number", "text"
_Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Id = Annotated[
    Annotated[int, _Whole, Field(ge=-(2**63), lt=2**63), Tag(_NUMBER)] | Annotated[str, Tag(_TEXT)],
    Discriminator(lambda value: _TEXT if isinstance(value, str) else _NUMBER),
]
Kind = TypeVar("Kind")

# Bytes that a byte of the json takes at most as entries: an estimate for the shortest possible
# entries.
_BYTES_OF_JSON = 16
STRICT = ConfigDict(strict=True, extra="ignore")


def parse(document: Path, kind: type[Kind]) -> Kind:
    """The content of a json as a pydantic dataclass. Raises InputError with the first problem."""
    memory.require(str(document), document.stat().st_size * _BYTES_OF_JSON)
    try:
        return TypeAdapter(kind).validate_json(document.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        parts = [part for part in problems[0]["loc"] if part not in (_NUMBER, _TEXT)]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise InputError(f"{' '.join([str(document), place]).strip()}: {problems[0]['msg']}{more}") from error


def image_table(ids, files, splits, widths, heights, digests) -> pa.Table:
    """The columns of ``vse_pipe.artifacts.images`` from parallel sequences."""
    return pa.table([ids, files, splits, widths, heights, digests], schema=images.SCHEMA)


def caption_table(ids, image_ids, texts, splits) -> pa.Table:
    """The columns of ``vse_pipe.artifacts.captions`` from parallel sequences."""
    return pa.table([ids, image_ids, texts, splits], schema=captions.SCHEMA)


def phrase_table(rows: list[tuple], where: str) -> pa.Table:
    """The columns of ``vse_pipe.artifacts.regions``. Raises InputError without rows."""
    if not rows:
        raise InputError(f"{where}: no phrase of the captions has a box")
    return pa.table([*zip(*rows, strict=True), [None] * len(rows)], schema=regions.PHRASES_SCHEMA)


def filtered(source: Source, pictured: pa.Array, described: pa.Array) -> Source:
    """The rows of images and captions whose masks are true, with their names and phrases."""
    images, captions = source.images.filter(pictured), source.captions.filter(described)
    ids = {key: table[key].combine_chunks() for key, table in (("image_id", images), ("caption_id", captions))}
    names, phrases = source.names, source.phrases
    if names is not None:
        rows = names.table
        present = [pc.and_(pc.equal(rows["key"], key), pc.is_in(rows["id"], left)) for key, left in ids.items()]
        names = TextIds(rows.filter(pc.or_(*present)))
    if phrases is not None:
        phrases = phrases.filter(pc.is_in(phrases["caption_id"], ids["caption_id"]))
    return replace(source, images=images, captions=captions, names=names, phrases=phrases)


def without_blanks(source: Source) -> Source:
    """The data set without captions that say nothing and without images that no caption describes;
    ``left_out`` counts them and names the first. A data set without any caption, such as a folder,
    stays. Raises InputError when nothing is left."""
    if not source.captions.num_rows or source.regions is not None:
        return source
    is_written = pc.not_equal(source.captions["text"], "")
    owners = source.captions["image_id"].filter(is_written)
    described = pc.is_in(source.images["image_id"], value_set=owners.combine_chunks())
    if not len(owners):
        raise InputError(f"{source.root}: none of the {len(is_written)} captions says anything")
    bare = source.images["file"].filter(pc.invert(described)).to_pylist()
    lines = [f"captions without text: {len(is_written) - len(owners)}"] * (len(owners) < len(is_written))
    named = ", ".join(bare[:_FIRST]) + ", ..." * (len(bare) > _FIRST)
    lines += [f"images without a caption: {len(bare)} ({named})"] * bool(bare)
    left_out = [*source.left_out, *lines]
    return replace(filtered(source, described, is_written), left_out=left_out) if lines else source
