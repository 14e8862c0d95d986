"""Bottom-up-attention features (Anderson et al., CVPR 2018) from the authors' TSV files: regions and their boxes."""

import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from torch import nn

from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, MissingResource, UnreadableImage
from vse_pipe.extract.backbones.options import BottomUpOptions as Params
from vse_pipe.extract.job import Backbone, Output
from vse_pipe.pictures.images import Item, item_orientation, turned, upright

_FIELDS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
# A row of 100 boxes has 1.1 MB; a longer line is no row of such a file.
_LONGEST = 2**26
# A table read with pandas writes 391895.0 where a row of it was empty.
_ID = re.compile(rb"(-?[0-9]{1,19})(?:\.0)?")
_TEXT_ID = re.compile(r"([0-9]{1,18})(?:\.0)?")
_NUMBERED = re.compile(r"(?:.*_)?([0-9]{1,18})")


def build(params: Params, seed: int) -> Backbone:
    """Features (regions, dimensions) and boxes; the files have no scores.

    The files are read once for their digests and the places of their rows; memory holds the places and one row. Raises
    MissingResource without a file, InputError naming file and row: not six columns, two rows of an image or none,
    another number of boxes or features, no base64, values that are not finite; UnreadableImage for a row that was made
    from a picture of another shape."""

    class Stored(nn.Module):
        def forward(self, features, boxes) -> Output:
            return Output(features, boxes)

    index = tsv_index(tsv_files(params.tsv))
    about = {
        "network": "bottom-up attention",
        "files": index.files,
        "regions": params.regions,
        "dimensions": params.dimensions,
    }

    def read(root, item):
        row = read_row(index, item, params.key, (params.regions, params.dimensions))
        return row.features, fitted(row, root, item)

    return Backbone(read=read, module=Stored(), about=about, libraries=())


@dataclass(frozen=True)
class RowPlace:
    """The bytes of a row. row: number in its file, from 1."""

    path: Path
    row: int
    start: int
    length: int

    def __str__(self) -> str:
        return f"{self.path} row {self.row}"


@dataclass(frozen=True)
class Index:
    """places: by image_id of the row; files: name, digest and rows of each file, for meta.json."""

    places: dict[int, RowPlace]
    files: list[dict]


@dataclass(frozen=True)
class TsvRow:
    """float32 features (R, D) and boxes (R, 4): x1, y1, x2, y2 in pixels of the picture that they were made from, which
    has ``size``."""

    place: RowPlace
    size: tuple[int, int]
    features: np.ndarray
    boxes: np.ndarray


def tsv_files(names: list[str]) -> list[Path]:
    """The files, and the files in folders by name. Raises MissingResource for a missing file or an empty folder."""
    paths = []
    for path in (Path(name).expanduser() for name in names):
        inside = (
            sorted(p for p in path.glob("*") if re.search(r"\.tsv(\.[0-9]+)?$", p.name)) if path.is_dir() else [path]
        )
        if not inside or not path.exists():
            raise MissingResource(
                f"{path.absolute()}: no such bottom-up TSV file, nor a folder of them; set tsv to where they lie"
            )
        paths += inside
    return paths


def tsv_index(paths: list[Path]) -> Index:
    """The places of all rows. Raises InputError for a line that is no row and for an image with two rows."""
    places: dict[int, RowPlace] = {}
    about = []
    for path in track(iter(paths), len(paths), "reading bottom-up TSV files"):
        digest, rows = hashlib.sha256(), 0
        with path.open("rb") as file:
            for start, line in _lines(file, path, digest):
                place = RowPlace(path, rows + 1, start, len(line))
                image_id = _image_id(line, place)
                if image_id in places:
                    raise InputError(f"{place}: image_id {image_id} is in {places[image_id]} already")
                places[image_id] = place
                rows += 1
        if not rows:
            raise InputError(f"{path}: holds no rows")
        about.append({"file": path.name, "sha256": digest.hexdigest(), "rows": rows})
    return Index(places, about)


def _lines(file: BinaryIO, path: Path, digest) -> Iterator[tuple[int, bytes]]:
    start = 0
    while line := file.readline(_LONGEST + 1):
        if len(line) > _LONGEST:
            raise InputError(
                f"{path}: a line of more than {_LONGEST} bytes at byte {start}; that is no bottom-up TSV file"
            )
        digest.update(line)
        yield start, line
        start += len(line)


def _image_id(line: bytes, place: RowPlace) -> int:
    fields = line.count(b"\t") + 1
    if fields != len(_FIELDS):
        raise InputError(f"{place}: {fields} columns, expected {len(_FIELDS)}: {', '.join(_FIELDS)}")
    name = line[: line.index(b"\t")]
    match = _ID.fullmatch(name)
    if not match:
        raise InputError(f"{place}: image_id {name[:40]!r} is not a whole number")
    return int(match[1])


def read_row(index: Index, item: Item, key: str, shape: tuple[int, int]) -> TsvRow:
    """The row of one image; shape: R and D. Raises InputError naming file and row."""
    number = _image_number(item) if key == "image_id" else _file_number(item)
    if number not in index.places:
        names = ", ".join(about["file"] for about in index.files)
        raise InputError(
            f"{item.where}: no row of {names} has image_id {number} ({item.file}); key: {key} says which number is looked for"
        )
    place = index.places[number]
    with place.path.open("rb") as file:
        file.seek(place.start)
        fields = file.read(place.length).rstrip(b"\r\n").split(b"\t")
    match = _ID.fullmatch(fields[0])
    if len(fields) != len(_FIELDS) or not match or int(match[1]) != number:
        raise InputError(f"{place}: the file changed while it was read")
    regions, width = shape
    _check_count(fields[3], regions, f"{place}: image_id {number}")
    size = _pixels(fields[1], "image_w", place), _pixels(fields[2], "image_h", place)
    features, boxes = (
        _floats(fields[5], (regions, width), "features", place),
        _floats(fields[4], (regions, 4), "boxes", place),
    )
    return TsvRow(place, size, features, boxes)


def fitted(row: TsvRow, root: Path, item: Item) -> np.ndarray:
    """float32 (R, 4), the boxes on the upright picture: scaled if the row was made from a copy of another size, turned if
    it was made from the stored pixels of a picture that EXIF turns.

    Raises UnreadableImage for a picture of another shape, and where EXIF turns a picture and its size does not tell
    whether the row was made before or after that."""
    if not any(item.size):
        return row.boxes
    orientation = item_orientation(root, item)
    stored = upright(item.size, orientation)
    for size in sorted((item.size, stored), key=lambda size: size != row.size):
        scale = _scale(row.size, size)
        if scale is None:
            continue
        if orientation != 1 and stored == item.size:
            reason = f"is turned by EXIF, and its size does not tell whether {row.place} was made before or after that"
            raise UnreadableImage(item.where, reason)
        boxes = row.boxes * scale
        if size == item.size:
            return boxes
        return np.array([turned(box, orientation, stored) for box in boxes.tolist()], np.float32)
    row_size, picture_size = (f"{width} x {height}" for width, height in (row.size, item.size))
    reason = f"has {picture_size} pixels, {row.place} was made from {row_size}: another picture's row? See key and tsv"
    raise UnreadableImage(item.where, reason)


def _scale(size: tuple[int, int], other: tuple[int, int]) -> np.ndarray | None:
    """float32 (4,), the factors of x1, y1, x2, y2 from one size to the other; None for another shape, beyond a pixel of
    rounding."""
    (width, height), (other_width, other_height) = size, other
    rounding = max(other) / max(size) if max(size) < max(other) else 1.0
    if abs(height * other_width / width - other_height) > rounding:
        return None
    x, y = other_width / width, other_height / height
    return np.array([x, y, x, y], np.float32)


def _pixels(field: bytes, name: str, place: RowPlace) -> int:
    match = re.fullmatch(rb"([0-9]{1,9})(?:\.0)?", field)
    if not match or not int(match[1]):
        raise InputError(f"{place}: {name} {field[:40]!r} is not a number of pixels")
    return int(match[1])


def _image_number(item: Item) -> int:
    """The id of the data set: its text where ids are text, for the number behind it is known to nobody."""
    match = _TEXT_ID.fullmatch(item.name) if item.name else None
    if item.name and not match:
        raise InputError(
            f"{item.where}: image_id {item.name!r} is no number, as the rows of the TSV files have; set key: file"
        )
    return int(match[1]) if match else item.image_id


def _file_number(item: Item) -> int:
    match = _NUMBERED.fullmatch(Path(item.file).stem)
    if match is None:
        raise InputError(
            f"{item.where}: file {item.file!r} does not end with a number of its own, as COCO_val2014_000000391895.jpg does; "
            "set key: image_id if the rows of the TSV files have the image_id of images.parquet"
        )
    return int(match[1])


def _check_count(field: bytes, regions: int, place: str) -> None:
    if not re.fullmatch(rb"[0-9]{1,9}", field):
        raise InputError(f"{place}: num_boxes {field[:40]!r} is not a number")
    if int(field) != regions:
        raise InputError(
            f"{place} has {int(field)} boxes, expected {regions}: every image needs as many; take the files with a fixed number of boxes, or set regions"
        )


def _floats(field: bytes, shape: tuple[int, int], name: str, place: RowPlace) -> np.ndarray:
    try:
        content = binascii.a2b_base64(field, strict_mode=True)
    except binascii.Error as error:
        raise InputError(f"{place}: {name} are not base64 ({error})") from error
    size = shape[0] * shape[1] * 4
    if len(content) != size:
        raise InputError(f"{place}: {name} have {len(content)} bytes, expected {size}: {shape[0]} x {shape[1]} float32")
    values = np.frombuffer(content, dtype="<f4").astype(np.float32).reshape(shape)
    if not np.isfinite(values).all():
        raise InputError(f"{place}: {name} hold NaN or infinite values")
    return values
