"""The tables that every format returns, and the checks that all of them share."""

import hashlib
import math
import mmap
import sys
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images, regions
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import arrays, files, memory, seeds, text
from vse_pipe.core.console import track
from vse_pipe.core.errors import Damage, InputError, MissingResource, UsageError, missing
from vse_pipe.pictures.names import near_name

# In characters: the limit of the csv module for a cell, ten times the longest real caption.
LONGEST_CAPTION = 2**17
_LONGEST_LINE = 2**20
_FIRST = 3
# Bytes of a caption beside its text: ids, the row of its image, and the place for messages.
_BESIDE_A_CAPTION = 500
# Categories of Unicode for separators, controls and formats.
_UNSEEN = ("Zs", "Zl", "Zp", "Cc", "Cf")
# Numbers and texts by key, the arguments of ``TextIds.of``.
Named = dict[str, tuple[np.ndarray, pa.Array]]
_SPLITS = {"train": "train", "restval": "train", "val": "val", "dev": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class RegionRows:
    """table: the columns of ``vse_pipe.artifacts.regions``; source, recall, source_data: as of its ``write``."""

    table: pa.Table
    source: str
    recall: dict[str, dict]
    source_data: dict[str, str]


@dataclass(frozen=True)
class Source:
    """images and captions: the columns of ``vse_pipe.artifacts.images`` and ``.captions``, in the order of the data
    set.

    root: the folder of the names in the column ``file``, relative to the project or absolute. broken: a line for each
    image that is missing or does not decode; the stage decides whether it stops. phrases: the columns of
    ``vse_pipe.artifacts.regions``, for data sets with boxes of phrases. regions: for a data set of boxes in the
    pictures of another data set. names: for text ids. left_out: a line for each file that could be a picture but is no
    row."""

    images: pa.Table
    captions: pa.Table
    root: str
    broken: list[str] = field(default_factory=list)
    phrases: pa.Table | None = None
    regions: RegionRows | None = None
    names: TextIds | None = None
    left_out: list[str] = field(default_factory=list)


def existing(source: Path) -> Path:
    """``source`` if it exists. Raises MissingResource, because no command makes raw data; UsageError for a URL, which
    only formats of shards can read."""
    if files.is_remote(source):
        raise UsageError(
            f"source {files.url(source)}: object storage is read by the formats webdataset and parquet alone"
        )
    if not source.exists():
        raise MissingResource(
            f"source {source} does not exist{near_name(source.parent, source.name)}; put the data set there or correct `source` in params.yaml"
        )
    return source


def split_of(name: str, where: str) -> str:
    """train, val or test; ``restval`` counts as train, ``dev`` and ``validation`` as val. Raises InputError."""
    if (split := _SPLITS.get(name.strip().lower())) is None:
        raise InputError(missing(f"{where}: unknown split '{name}'", name, _SPLITS))
    return split


def drawn_split(name: str, val: float, test: float, seed: int) -> str:
    """The split by a hash of the seed and ``name``: it does not change when images are added. val, test: shares."""
    drawn = seeds.derive_seed(seed, "split", name) / 2**63
    if drawn < test:
        return "test"
    return "val" if drawn < test + val else "train"


def caption_text(text: str, where: str) -> str:
    """``text`` unchanged: captions keep their case, quotes and spaces.

    Raises InputError for a text without visible characters or longer than ``LONGEST_CAPTION``, for more captions than
    memory may hold, and for half of a surrogate pair, which JSON can hold and UTF-8 cannot."""
    if not text.strip():
        raise InputError(f"{where}: the caption is empty; write one or remove the row")
    if is_blank(text):
        raise InputError(f"{where}: the caption {text[:8]!a} shows nothing; write one or remove the row")
    if len(text) > LONGEST_CAPTION:
        raise InputError(f"{where}: a caption of {len(text)} characters; expected no more than {LONGEST_CAPTION}")
    memory.reserve(where, sys.getsizeof(text) + _BESIDE_A_CAPTION)
    if not is_text(text):
        raise InputError(f"{where}: the caption {text[:40]!r} holds half of a surrogate pair; correct it")
    return text


def is_blank(text: str) -> bool:
    """Whether the text has no visible character."""
    return all(unicodedata.category(letter) in _UNSEEN for letter in text)


def file_name(name: str) -> str:
    """The normal form of a picture's name: ``a/b.png`` for ``./a//b.png``. ``..`` stays and is refused later."""
    if name.startswith("/"):
        return name
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def is_text(value: str) -> bool:
    """Return whether ``value`` can be encoded as UTF-8. Names in other encodings and some escapes of JSON cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Unique:
    """The values so far, each with its place. ``add`` raises InputError for a repeated value."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: dict[Any, str] = {}

    def add(self, value, where: str):
        if value in self.first:
            raise InputError(
                f"{where}: {self.name} {value!r} was given to {self.first[value]} already; it must be unique"
            )
        self.first[value] = where
        return value


def numbered(
    ids: Sequence[int | str], key: str, where: Callable[[int], str], called: str = ""
) -> tuple[list[int], Named]:
    """The numbers of ids, and the arguments of ``TextIds.of``.

    Ids that are all numbers, also as text, keep their numbers and need no names. Other ids get running numbers. where:
    returns the place of an id, for messages; called: the name of the id in the source. Raises InputError for repeated
    ids and for texts that cannot be ids."""
    odd = next((place for place, value in enumerate(ids) if not is_text(str(value))), None)
    if odd is not None:
        raise InputError(f"{where(odd)}: {called or key} {text.shown_id(str(ids[odd]))} is no text that UTF-8 can hold")
    texts = pa.array(map(str, ids), pa.string())
    if not all(isinstance(value, int) for value in ids) and not text.are_numbers(texts):
        if wrong := text.objection(texts):
            raise InputError(f"{where(wrong[0])}: {called or key} {wrong[1]}")
        running = np.arange(len(texts))
        return running.tolist(), {key: (running, texts)}
    numbers = [int(value) for value in ids]
    if len(set(numbers)) < len(numbers):
        unique = Unique(called or key)
        for place, number in enumerate(numbers):
            unique.add(number, where(place))
    return numbers, {}


def read_text(path: Path) -> str:
    """The text of a UTF-8 file without a byte order mark. Raises InputError with the line of the first byte that is not
    UTF-8, and for a file that needs more memory than allowed."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    memory.require_text(path)
    return _decoded(path.read_bytes(), path, 1, first=True)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, split at ``\\n`` only: U+2028 and U+0085 are part of a caption.

    A carriage return before the break is dropped, and the final newline may be missing. A line at a time is in memory.
    Raises as ``read_text``."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{path} line {number}: more than {_LONGEST_LINE} bytes are no caption")
            yield _decoded(line.removesuffix(b"\n"), path, number, number == 1).removesuffix("\r")


def _decoded(content: bytes, path: Path, line: int, first: bool) -> str:
    """The text of ``content``. line: number of its first line; first: a byte order mark is allowed."""
    try:
        return content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte order mark, so the line is counted in the object of the error.
        line += error.object.count(b"\n", 0, error.start)
        byte = error.object[error.start]
        raise InputError(
            f"{path} line {line}: byte 0x{byte:02x} is not UTF-8 text; convert the file to UTF-8"
        ) from error


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
    """The data set without captions that say nothing and without images that no caption describes; ``left_out`` counts
    them and names the first. A data set without any caption, such as a folder, stays. Raises InputError when nothing is
    left."""
    if not source.captions.num_rows or source.regions is not None:
        return source
    said = pc.not_equal(source.captions["text"], "")
    owners = source.captions["image_id"].filter(said)
    shown = pc.is_in(source.images["image_id"], value_set=owners.combine_chunks())
    if pc.all(said).as_py() and pc.all(shown).as_py():
        return source
    if not len(owners):
        raise InputError(f"{source.root}: none of the {len(said)} captions says anything")
    silent = source.captions.filter(pc.invert(said))["image_id"]
    rows = pc.index_in(silent[:_FIRST], value_set=source.images["image_id"].combine_chunks())
    counted = _counted("captions without text", len(silent), source.images["file"].take(rows))
    bare = source.images.filter(pc.invert(shown))["file"]
    counted += _counted("images without a caption", len(bare), bare[:_FIRST])
    return replace(filtered(source, shown, said), left_out=[*source.left_out, *counted])


def _counted(what: str, count: int, first: pa.ChunkedArray) -> list[str]:
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return [f"{what}: {count} ({', '.join(map(str, first.to_pylist()))}{more})"] if count else []


def refuse_rows(where: str, wrong: pa.Table, key: str, problem: str) -> None:
    """Raise InputError when ``wrong`` has rows, naming ``key`` of the first. problem: may hold columns in braces."""
    if wrong.num_rows:
        first = wrong.slice(0, 1).to_pylist()[0]
        more = f" (and {wrong.num_rows - 1} more)" if wrong.num_rows > 1 else ""
        raise InputError(f"{where}{key} {first[key]}: {problem.format(**first)}{more}")


# Rows in memory before they are written: some MB of captions.
BLOCK = 2**14


class Rows:
    """The rows of a table, written in blocks to an unnamed file in ``folder``, so that they need not fit in memory.
    Bytes that ``memory.take`` counted for rows are released once the rows are written."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.count, self._schema = 0, schema
        folder.mkdir(parents=True, exist_ok=True)
        self._storage = TemporaryFile(dir=folder)  # noqa: SIM115 (without a name: gone when it is closed)
        weakref.finalize(self, self._storage.close)
        self._file = pa.ipc.new_file(self._storage, schema)
        self._waiting: list[tuple[Any, ...]] = []
        self._before = memory.reserved()

    def add(self, *row: Any) -> None:
        """Add a row, its values in the order of the schema."""
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= BLOCK:
            self._write()

    def reserve(self, size: int) -> None:
        """Count ``size`` bytes that stay in memory when rows are written."""
        self._before += size

    def extend(self, *columns: Sequence[Any] | pa.Array | pa.ChunkedArray) -> None:
        self._write()
        table = pa.table(list(columns), schema=self._schema)
        self.count += table.num_rows
        self._file.write_table(table)
        memory.release_to(self._before)

    def table(self) -> pa.Table:
        """All rows, memory-mapped. No rows can be added afterwards."""
        self._write()
        self._file.close()
        self._storage.flush()
        content = mmap.mmap(self._storage.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(content)).read_all()

    def _write(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._file.write_table(
                pa.table([list(column) for column in zip(*waiting, strict=True)], schema=self._schema)
            )
            memory.release_to(self._before)


def blocks(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield consecutive rows of ``table`` with the number of the first row."""
    start = 0
    for batch in table.to_batches(max_chunksize=BLOCK):
        yield start, pa.Table.from_batches([batch])
        start += len(batch)


_BLOCK_BYTES = 64 * 2**20


def open_array(path: Path) -> np.ndarray:
    """Memory map (rows, D) or (rows, R, D) of float16, float32 or float64.

    Raises MissingResource without the file; InputError for a file that is not .npy, pickled objects, another type or
    shape, no rows, or another number of bytes than in the header."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    array = arrays.open_npy(path, Damage(InputError, "copy it again"))
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(f"{path}: holds {array.dtype}, expected float16, float32 or float64")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(f"{path}: shape {array.shape}, expected (rows, D) or (rows, regions, D), none of them 0")
    return array


def row_digests(array: np.ndarray, path: Path) -> tuple[np.ndarray, dict[int, str]]:
    """sha256 of the stored bytes of every row, uint8 (rows, 32), and lines of ``Source.broken`` for rows with values
    that are not finite, by number. The file is read once in blocks, because it may be larger than the memory."""
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    memory.require(f"{path}: a row", row_bytes)
    step = max(1, _BLOCK_BYTES // row_bytes)
    starts = range(0, len(array), step)
    digests = np.empty((len(array), 32), np.uint8)
    broken: dict[int, str] = {}
    for start in track(starts, len(starts), path.name):
        block = np.ascontiguousarray(array[start : start + step])
        finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        for row in (np.flatnonzero(~finite) + start).tolist():
            broken[row] = f"{path.name}#{row} holds NaN or infinite values"
        joined = b"".join(hashlib.sha256(row).digest() for row in block)
        digests[start : start + len(block)] = np.frombuffer(joined, np.uint8).reshape(-1, 32)
    return digests, broken


_TEXT = pa.schema([captions.SCHEMA.field("text")])


def texts(folder: Path, lines: Iterable[str]) -> pa.Table:
    """The captions of a split on the disk, as a table with the column ``text``."""
    rows = Rows(folder, _TEXT)
    for line in lines:
        rows.add(line)
    return rows.table()


class Splits:
    """The tables of a data set, filled split by split; caption_id is a running number."""

    def __init__(self, folder: Path) -> None:
        self._images, self._captions = Rows(folder, images.SCHEMA), Rows(folder, captions.SCHEMA)
        self._broken: list[str] = []

    def add(
        self, prefix: str, split: str, ids: np.ndarray, digests: np.ndarray, texts: pa.Table, broken: Sequence[str]
    ) -> None:
        """Add the images and captions of a split; every image has the same number of rows and of captions.

        prefix: of the files of features; ids: int64 (n,); digests: uint8 (rows, 32); texts: of ``texts``; broken: of
        ``Source``."""
        repeated, per_image = len(digests) // len(ids), len(texts) // len(ids)
        for start in range(0, len(ids), BLOCK):
            part = ids[start : start + BLOCK]
            rows = np.arange(start, start + len(part)) * repeated
            hexes = [bytes(digest).hex() for digest in digests[rows]]
            files, nothing = [f"{prefix}_ims.npy#{row}" for row in rows.tolist()], np.zeros(len(part), np.int32)
            self._images.extend(part, files, pa.repeat(split, len(part)), nothing, nothing, hexes)
        before = self._captions.count
        for start, block in blocks(texts):
            places = np.arange(start, start + len(block))
            self._captions.extend(
                before + places, ids[places // per_image], block["text"], pa.repeat(split, len(block))
            )
        self._broken += broken

    def source(self, root: Path) -> Source:
        return Source(self._images.table(), self._captions.table(), str(root), self._broken)
