"""Bottom-up-attention features (Anderson et al., CVPR 2018): regions and boxes of TSV files."""

import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, MissingResource, UnreadableImage
from vse_pipe.extract.backbones.options import BottomUpOptions as Params
from vse_pipe.extract.job import Backbone, Output
from vse_pipe.pictures.images import Item

_FIELDS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
# A row of 100 boxes has 1.1 MB; a longer line is no row of such a file.
_LONGEST = 2**26
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NUMBERED = re.compile(r"(?:.*_)?([0-9]{1,18})")


def build(params: Params, seed: int) -> Backbone:
    """Features (regions, dimensions) and boxes; the files have no scores.

    The files are read once for their digests and the places of their rows; memory holds the places
    and one row. Raises MissingResource without a file, InputError naming file and row for what is
    no such row; UnreadableImage for a row that was made from a picture of another shape."""

    class Stored(nn.Module):
        def forward(self, features, boxes) -> Output:
            return Output(features, boxes)

    places, files = tsv_index(tsv_files(params.tsv))
    about = {
        "network": "bottom-up attention",
        "files": files,
        "regions": params.regions,
        "dimensions": params.dimensions,
    }

    def read(root, item):
        return read_row(places, item, (params.regions, params.dimensions))

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


def tsv_files(names: list[str]) -> list[Path]:
    """The files, those of a folder by name. Raises MissingResource for a missing or empty one."""
    paths = []
    for path in (Path(name).expanduser() for name in names):
        below = sorted(p for p in path.glob("*") if re.search(r"\.tsv(\.[0-9]+)?$", p.name))
        files = below if path.is_dir() else [path]
        if not files or not path.exists():
            raise MissingResource(f"{path.absolute()}: no such bottom-up TSV file, nor a folder of them")
        paths += files
    return paths


def tsv_index(paths: list[Path]) -> tuple[dict[int, RowPlace], list[dict]]:
    """The places of all rows by image_id; name, digest and rows of each file, for meta.json. Raises
    InputError for no row, and for an image with two."""
    places: dict[int, RowPlace] = {}
    about = []
    for path in track(iter(paths), len(paths), "reading bottom-up TSV files"):
        digest, rows, start = hashlib.sha256(), 0, 0
        with path.open("rb") as file:
            while line := file.readline(_LONGEST + 1):
                rows += 1
                place = RowPlace(path, rows, start, len(line))
                image_id = _number(_fields(line, place)[0], "image_id", place)
                if image_id in places:
                    raise InputError(f"{place}: image_id {image_id} is in {places[image_id]} already")
                places[image_id] = place
                digest.update(line)
                start += len(line)
        if not rows:
            raise InputError(f"{path}: holds no rows")
        about.append({"file": path.name, "sha256": digest.hexdigest(), "rows": rows})
    return places, about


def _fields(line: bytes, place: RowPlace) -> list[bytes]:
    fields = line.rstrip(b"\r\n").split(b"\t")
    if len(fields) != len(_FIELDS) or len(line) > _LONGEST:
        raise InputError(f"{place}: {len(fields)} columns, expected {len(_FIELDS)}: {', '.join(_FIELDS)}")
    return fields


def _number(field: bytes, name: str, place: RowPlace) -> int:
    text = field[:40].decode("ascii", "replace")
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{place}: {name} {text!r} is not a whole number")
    return int(text)


def read_row(places: dict[int, RowPlace], item: Item, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """float32 features (R, D) and boxes (R, 4), x1, y1, x2, y2, of the row with the number at the
    end of the image's file name. shape: R and D. Raises InputError naming file and row."""
    match = _NUMBERED.fullmatch(Path(item.file).stem)
    number = int(match[1]) if match else None
    if number not in places:
        raise InputError(
            f"{item.where}: no row has the number at the end of the name {item.file}, as COCO_val2014_000000391895 has"
        )
    place = places[number]
    with place.path.open("rb") as file:
        file.seek(place.start)
        _, *sizes, boxes, features = _fields(file.read(place.length), place)
    width, height, count = map(_number, sizes, _FIELDS[1:4], [place] * 3)
    if count != shape[0] or min(width, height) < 1:
        raise InputError(
            f"{place}: image_id {number} has {count} boxes in {width} x {height} pixels, expected "
            f"{shape[0]}: every image needs as many; take files with a fixed number, or set regions"
        )
    corners = _floats(boxes, (count, 4), "boxes", place)
    return _floats(features, shape, "features", place), fitted(corners, (width, height), item, place)


def fitted(boxes: np.ndarray, size: tuple[int, int], item: Item, place: RowPlace) -> np.ndarray:
    """float32 (R, 4), the boxes on the upright picture, scaled if the row was made from a copy of
    another size. Raises UnreadableImage for a picture of another shape, beyond a pixel of
    rounding."""
    if not any(item.size):
        return boxes
    (width, height), (picture_width, picture_height) = size, item.size
    rounding = max(1.0, max(item.size) / max(size))
    if abs(height * picture_width / width - picture_height) > rounding:
        pixels, made_from = f"{picture_width} x {picture_height}", f"{width} x {height}"
        raise UnreadableImage(item.where, f"has {pixels} pixels upright, {place} was made from {made_from}")
    return boxes * np.array([picture_width / width, picture_height / height] * 2, np.float32)


def _floats(field: bytes, shape: tuple[int, int], name: str, place: RowPlace) -> np.ndarray:
    try:
        content = binascii.a2b_base64(field, strict_mode=True)
        values = np.frombuffer(content, dtype="<f4").astype(np.float32).reshape(shape)
    except ValueError as error:  # no base64 (binascii.Error), or another number of bytes
        raise InputError(f"{place}: {name} are no {shape[0]} x {shape[1]} float32 in base64 ({error})") from error
    if not np.isfinite(values).all():
        raise InputError(f"{place}: {name} hold NaN or infinite values")
    return values
