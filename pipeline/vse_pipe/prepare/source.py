"""What every format hands back, and the checks that all of them share."""

import math
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import captions, images, regions
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import files, memory, seeds, text
from vse_pipe.core.errors import InputError, MissingResource, UsageError, missing

# In characters: what the csv module reads of a cell, and ten times what anybody wrote below a picture.
LONGEST_CAPTION = 2**17
_LONGEST_LINE = 2**20
# Bytes of its ids, its image's row, and the place that messages name.
_BESIDE_A_CAPTION = 500
# Categories of Unicode: what separates, controls and formats.
_UNSEEN = ("Zs", "Zl", "Zp", "Cc", "Cf")
# Numbers and texts by key, as ``TextIds.of`` takes them.
Named = dict[str, tuple[np.ndarray, pa.Array]]
_SPLITS = {"train": "train", "restval": "train", "val": "val", "dev": "val", "test": "test"}


@dataclass(frozen=True)
class RegionRows:
    """table: the columns of ``vse_pipe.artifacts.regions``; source, recall, source_data: as of its ``write``."""

    table: pa.Table
    source: str
    recall: dict[str, dict]
    source_data: dict[str, str]


@dataclass(frozen=True)
class Source:
    """images and captions: the columns of ``vse_pipe.artifacts.images`` and ``.captions``, in the data set's order.

    root: the folder that the column ``file`` is relative to, itself relative to the project or absolute. broken: a line
    for each image that is missing or does not decode; the stage decides whether it stops for them. phrases: the columns of
    ``vse_pipe.artifacts.regions``, of data sets that know where in their pictures the things are that their captions name. regions: of a
    data set of boxes in the pictures of another one. names: of data sets whose ids are text. left_out: a line for each file that
    is no row although it could be a picture.
    """

    images: pa.Table
    captions: pa.Table
    root: str
    broken: list[str] = field(default_factory=list)
    phrases: pa.Table | None = None
    regions: RegionRows | None = None
    names: TextIds | None = None
    left_out: list[str] = field(default_factory=list)


def existing(source: Path) -> Path:
    """``source`` if it exists. Raises MissingResource: no command makes the raw data; UsageError for a URL, which formats of shards
    alone can read."""
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
    """train, val or test; ``restval`` counts as train and ``dev`` as val. Raises InputError."""
    if name not in _SPLITS:
        raise InputError(missing(f"{where}: unknown split '{name}'", name, _SPLITS))
    return _SPLITS[name]


def drawn_split(name: str, val: float, test: float, seed: int) -> str:
    """From a hash of the seed and ``name``, so that it does not change when other images are added. val, test: shares."""
    drawn = seeds.derive_seed(seed, "split", name) / 2**63
    if drawn < test:
        return "test"
    return "val" if drawn < test + val else "train"


def caption_text(text: str, where: str) -> str:
    """``text`` unchanged: captions keep their case, quotes and spaces. Raises InputError when there is nothing to read, more
    than ``LONGEST_CAPTION``, more in all captions than memory may hold, or half of a surrogate pair, as JSON can write it: no
    file can hold that as UTF-8."""
    if not text.strip():
        raise InputError(f"{where}: the caption is empty; write one or remove the row")
    if all(unicodedata.category(letter) in _UNSEEN for letter in text):
        raise InputError(f"{where}: the caption {text[:8]!a} shows nothing; write one or remove the row")
    if len(text) > LONGEST_CAPTION:
        raise InputError(f"{where}: a caption of {len(text)} characters; expected no more than {LONGEST_CAPTION}")
    memory.take(where, sys.getsizeof(text) + _BESIDE_A_CAPTION)
    if not is_text(text):
        raise InputError(f"{where}: the caption {text[:40]!r} holds half of a surrogate pair; correct it")
    return text


def file_name(name: str) -> str:
    """The one spelling of a picture's name: ``a/b.png`` of ``./a//b.png``. ``..`` is left in place, and is refused later."""
    if name.startswith("/"):
        return name
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def is_text(value: str) -> bool:
    """Can it be written as UTF-8? Not so names of other encodings, as Python shows them, and some escapes of JSON."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Unique:
    """Remembers where each value was first given. ``add`` raises InputError when it is given again."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.first: dict[Any, str] = {}

    def add(self, value, where: str):
        if value in self.first:
            raise InputError(
                f"{where}: {self.what} {value!r} was given to {self.first[value]} already; it must be unique"
            )
        self.first[value] = where
        return value


def numbered(
    ids: Sequence[int | str], key: str, where: Callable[[int], str], called: str = ""
) -> tuple[list[int], Named]:
    """The numbers of ids as the data set has them, and what ``TextIds.of`` takes: nothing where all are numbers, in text or not.
    Else they are running numbers. where: of an id by its place; called: what the source calls it.

    Raises InputError for ids that are given twice, and for texts that can be none.
    """
    odd = next((place for place, one in enumerate(ids) if not is_text(str(one))), None)
    if odd is not None:
        raise InputError(f"{where(odd)}: {called or key} {text.shown_id(str(ids[odd]))} is no text that UTF-8 can hold")
    texts = pa.array(map(str, ids), pa.string())
    if not all(isinstance(one, int) for one in ids) and not text.are_numbers(texts):
        if wrong := text.objection(texts):
            raise InputError(f"{where(wrong[0])}: {called or key} {wrong[1]}")
        running = np.arange(len(texts))
        return running.tolist(), {key: (running, texts)}
    numbers = [int(one) for one in ids]
    if len(set(numbers)) < len(numbers):
        unique = Unique(called or key)
        for place, number in enumerate(numbers):
            unique.add(number, where(place))
    return numbers, {}


def read_text(path: Path) -> str:
    """A whole UTF-8 file, a byte order mark dropped. Raises InputError with the line of the first byte that is not UTF-8, and
    for a file that takes more memory than there may be."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    memory.require_text(path)
    return _decoded(path.read_bytes(), path, 1, first=True)


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file, cut at ``\\n`` alone: U+2028 and U+0085 belong to the caption they stand in.

    A carriage return before the cut is dropped, and the final newline may be missing; one line is in memory at a time. Raises as
    ``read_text``.
    """
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{path} line {number}: more than {_LONGEST_LINE} bytes are no caption")
            yield _decoded(line.removesuffix(b"\n"), path, number, number == 1).removesuffix("\r")


def _decoded(content: bytes, path: Path, line: int, first: bool) -> str:
    """line: the number of the first one in ``content``; first: whether a byte order mark may stand before it."""
    try:
        return content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte order mark, so the line is found in what the error carries.
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
    """The columns of ``vse_pipe.artifacts.regions``. Raises InputError without rows, which no stage could use."""
    if not rows:
        raise InputError(f"{where}: no phrase of the captions has a box")
    return pa.table([*zip(*rows, strict=True), [None] * len(rows)], schema=regions.PHRASES_SCHEMA)


@dataclass(frozen=True)
class Grouping:
    """Image k has captions ``k * captions`` and on, and its features in row ``k * rows``; both counts are per image."""

    captions: int
    rows: int


def group(captions: int, digests: np.ndarray, wanted: int | None, where: str) -> Grouping:
    """captions: how many there are; digests: (rows, 32), equal for equal rows; wanted: captions per image, or None.

    VSE++ and its descendants divide the caption's number by 5 whenever the counts differ and never when they agree,
    so a file that lost a caption is read without a word, and repeated rows count as so many images. Here the
    number of captions per image is captions / rows, which must be whole; where the counts agree, it is how often each
    row repeats its predecessor: the greatest common divisor of the lengths of the runs, as two images in a
    row may be equal. Raises InputError when nothing fits or the repetition is uneven.
    """
    rows = len(digests)
    if wanted is not None:
        return _as_told(captions, digests, wanted, where)
    if captions == rows:
        repeated = _repetition(digests, where)
        return Grouping(repeated, repeated)
    if captions % rows:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: not a multiple; there must be one row per image or per caption"
        )
    return Grouping(captions // rows, 1)


def _as_told(captions: int, digests: np.ndarray, wanted: int, where: str) -> Grouping:
    rows = len(digests)
    if captions == rows * wanted:
        return Grouping(wanted, 1)
    if captions != rows or rows % wanted:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: with captions_per_image {wanted} there must be "
            f"{wanted} captions a row, or as many rows as captions and a multiple of {wanted}"
        )
    groups = digests.reshape(-1, wanted, digests.shape[1])
    uneven = np.flatnonzero((groups != groups[:, :1]).any(axis=(1, 2)))
    if len(uneven):
        first = uneven[0] * wanted
        raise InputError(
            f"{where}: as many rows as captions, so captions_per_image {wanted} needs equal rows in groups of {wanted}; rows {first} to {first + wanted - 1} differ"
        )
    return Grouping(wanted, wanted)


def _repetition(digests: np.ndarray, where: str) -> int:
    changes = np.flatnonzero((digests[1:] != digests[:-1]).any(axis=1)) + 1
    lengths = np.diff(np.concatenate([[0], changes, [len(digests)]]))
    common = math.gcd(*lengths.tolist())
    repeats = lengths[lengths > 1].sum()
    if common == 1 and repeats * 2 > len(digests):
        raise InputError(
            f"{where}: {repeats} of {len(digests)} rows are equal to the row before or after them, but not in groups of one size, "
            "so nothing says which captions share an image; keep one row per image, or set captions_per_image"
        )
    return common
