"""Boxes from a file, for example those of EdgeBoxes: ``.npz`` or ``.mat`` with arrays, ``.csv`` with columns."""

import math
import re
import warnings
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from vse_pipe.core import arrays, memory
from vse_pipe.core.errors import Damage, InputError, MissingResource
from vse_pipe.core.weights import check
from vse_pipe.prepare.proposals.options import FileOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer

_DAMAGE = Damage(InputError, "write it again")
_NEEDED, _SCORES = ("image", "boxes"), "scores"
_CORNERS = ("x1", "y1", "x2", "y2")
_ROW = re.compile("Row #([0-9]+)")
# MATLAB's classes of numbers.
_PLAIN = re.compile("double|single|logical|u?int[0-9]+")
# The largest whole number up to which doubles are exact.
_EXACT = 2**53
# Bytes of a number of a MATLAB file while it is read.
_NUMBER_BYTES = 16


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The boxes of the file for each picture. Raises what ``read_boxes`` raises; InputError for a box without area or
    outside its picture, for a picture without boxes, and for two pictures that ``by`` does not distinguish."""
    path = Path(params.path)
    names, boxes, scores = read_boxes(path, params.sha256)
    corners = _corners(path, boxes, params)
    order = np.argsort(names, kind="stable")
    keys, starts = np.unique(names[order], return_index=True)
    rows = dict(zip(keys.tolist(), np.split(order, starts[1:]), strict=True))
    return partial(_proposed, params, rows, corners, scores, {})


def _corners(path: Path, boxes: np.ndarray, params: Params) -> np.ndarray:
    low = boxes[:, :2] - params.first_pixel
    high = boxes[:, 2:] - params.first_pixel if params.form == "corners" else low + boxes[:, 2:] - 1
    if (wrong := (high < low).any(axis=1)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{_where(path, row)}: {_listed(boxes[row])} is a box without area, in the form {params.form}")
    return np.concatenate([low, high], axis=1)


def _proposed(
    params: Params,
    rows: dict[str, np.ndarray],
    corners: np.ndarray,
    scores: np.ndarray | None,
    owners: dict[str, str],
    picture: Picture,
) -> Proposed:
    # The name of a member of a shard is the last part.
    stem = Path(picture.item.file.rpartition("::")[2]).stem
    key = {"stem": stem, "file": picture.item.file, "image_id": str(picture.item.image_id)}[params.by]
    if key not in rows:
        raise InputError(f"{params.path}: no boxes for {picture.item.file}, looked for by {params.by} as '{key}'")
    if (owner := owners.setdefault(key, picture.item.file)) != picture.item.file:
        raise InputError(
            f"{params.path}: {owner} and {picture.item.file} are both '{key}'; set by: file, and name them so"
        )
    mine = rows[key]
    outside = (corners[mine] < 0).any(axis=1) | (corners[mine, 2:] > (picture.width - 1, picture.height - 1)).any(
        axis=1
    )
    if outside.any():
        row = int(mine[np.flatnonzero(outside)[0]])
        raise InputError(
            f"{_where(Path(params.path), row)}: the box from {_listed(corners[row, :2])} to {_listed(corners[row, 2:])}, counted from 0, "
            f"reaches outside {picture.item.file} of {picture.width} x {picture.height} pixels; are form and first_pixel right?"
        )
    if scores is None:
        return Proposed(corners[mine], np.linspace(1, 0, len(mine), endpoint=False))
    return Proposed(corners[mine], scores[mine])


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values.tolist())


def read_boxes(path: Path, expected: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """image: str (n,), boxes: float64 (n, 4) unchanged, scores: float64 (n,) or None. expected: sha256 of the file.

    Raises MissingResource, IntegrityError for another digest, InputError with file and row or line for a damaged file,
    objects instead of numbers, no rows, columns of different lengths, numbers that are not finite."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file of boxes")
    if expected is not None:
        check(path, expected)
    columns = {".npz": lambda path: arrays.read_npz(path, _DAMAGE, _NEEDED, [_SCORES]), ".mat": _mat, ".csv": _csv}[
        path.suffix
    ](path)
    image, boxes, scores = columns["image"], columns["boxes"], columns.get(_SCORES)
    shapes = {name: array.shape for name, array in columns.items()}
    if image.ndim != 1 or boxes.shape != (len(image), 4) or (scores is not None and scores.shape != image.shape):
        raise InputError(f"{path}: shapes {shapes}, expected image (n,), boxes (n, 4) and scores (n,)")
    if not len(image):
        raise InputError(f"{path}: no boxes")
    names = _names(path, image)
    boxes = _numbers(path, "boxes", boxes)
    return names, boxes, None if scores is None else _numbers(path, _SCORES, scores)


def _where(path: Path, row: int) -> str:
    """The place of a row for messages: the row of an array from 0, or the line of a table as in an editor."""
    return f"{path} line {_line(path, row + 2)}" if path.suffix == ".csv" else f"{path} row {row}"


def _line(path: Path, record: int) -> int:
    """The line of a record of a table. The header is record 1; empty lines are no records."""
    with path.open(encoding="latin-1") as file:
        return next(islice((number for number, line in enumerate(file, 1) if line != "\n"), record - 1, None))


def _names(path: Path, image: np.ndarray) -> np.ndarray:
    if image.dtype.kind in "Uiu":
        return image.astype(np.str_)
    numbers = _numbers(path, "image", image)
    if (wrong := (numbers != np.round(numbers)) | (np.abs(numbers) > _EXACT)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{_where(path, row)}: image {numbers[row]:g} is neither a name nor a whole number")
    return numbers.astype(np.int64).astype(np.str_)


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path}: {name} holds {values.dtype}, expected numbers")
    # Numbers beyond the range of float64 become infinite and are refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = values.astype(np.float64)
    wrong = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{_where(path, row)}: {name} {numbers[row].tolist()}: not all are finite")
    return numbers


def _mat(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a MATLAB file, with columns (n, 1). ``boxes`` may be a cell with an array for each ``image``."""
    from scipy.io import loadmat, whosmat

    memory.require(str(path), path.stat().st_size)
    with _DAMAGE.named(path, "no MATLAB file of version 7 or older; save it with '-v7'"), warnings.catch_warnings():
        warnings.simplefilter("error")  # scipy only warns of a variable that it cannot read
        variables = [variable for variable in whosmat(path) if variable[0] in (*_NEEDED, _SCORES)]
        memory.require(str(path), sum(math.prod(shape) for _, shape, _ in variables) * _NUMBER_BYTES)
        columns = loadmat(path, variable_names=[name for name, _, _ in variables])
    kinds = {name: kind for name, _, kind in variables}
    for name in _NEEDED:
        if name not in kinds:
            raise InputError(f"{path}: has no '{name}'; expected image and boxes")
    for name, kind in kinds.items():
        if not _PLAIN.fullmatch(kind) and (name, kind) != ("boxes", "cell"):
            raise InputError(f"{path}: '{name}' is {kind}, expected plain numbers")
    flat, boxes = {name: np.reshape(columns[name], -1) for name in kinds if name != "boxes"}, columns["boxes"]
    return flat | (_joined(path, flat["image"], boxes.ravel("F")) if kinds["boxes"] == "cell" else {"boxes": boxes})


def _joined(path: Path, image: np.ndarray, boxes: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays (k, 4) of pictures, or (k, 5) with the score last, as a row for each box."""
    for place, array in enumerate(boxes, 1):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            raise InputError(f"{path}: 'boxes' {place} is no array of plain numbers")
    memory.require(str(path), sum(array.nbytes for array in boxes))
    filled = [array for array in boxes if array.size]
    shapes = {array.shape[1:] for array in filled}
    if len(image) != len(boxes) or shapes not in ({(4,)}, {(5,)}):
        raise InputError(
            f"{path}: {len(image)} image and boxes of {len(boxes)} cells with arrays {sorted(shapes)}; expected one array (k, 4) an image, or (k, 5) with scores"
        )
    rows = np.concatenate(filled)
    columns = {"image": np.repeat(image, [len(array) if array.size else 0 for array in boxes]), "boxes": rows[:, :4]}
    return columns | ({_SCORES: rows[:, 4]} if rows.shape[1] > 4 else {})


def _csv(path: Path) -> dict[str, np.ndarray]:
    memory.require_text(path)
    types = {"image": pa.string(), **dict.fromkeys([*_CORNERS, "score"], pa.float64())}
    with _DAMAGE.named(path, "no table of image,x1,y1,x2,y2[,score]"):
        try:
            options = csv.ConvertOptions(column_types=types, strings_can_be_null=False, null_values=[])
            table = csv.read_csv(path, csv.ReadOptions(use_threads=False), convert_options=options)
        except pa.ArrowInvalid as error:
            # pyarrow does not count empty lines.
            raise ValueError(_ROW.sub(lambda row: f"line {_line(path, int(row[1]))}", str(error))) from error
        header = table.column_names
        image = table["image"].to_numpy().astype(np.str_) if "image" in header else np.zeros(0, np.str_)
    if header not in (["image", *_CORNERS], list(types)):
        raise InputError(
            f"{path} line {_line(path, 1)}: expected the columns image,x1,y1,x2,y2 or image,x1,y1,x2,y2,score; found {','.join(header)!r}"
        )
    columns = {"image": image, "boxes": np.stack([table[name].to_numpy() for name in _CORNERS], axis=1)}
    return columns | ({_SCORES: table["score"].to_numpy()} if "score" in header else {})
