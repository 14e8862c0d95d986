"""Boxes from a file, for example those of EdgeBoxes: ``.npz`` or ``.mat`` with arrays, ``.csv`` with columns."""

import math
import warnings
from functools import partial
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
        raise InputError(f"{path} row {row}: {_listed(boxes[row])} is a box without area, in the form {params.form}")
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
            f"{params.path} row {row}: the box from {_listed(corners[row, :2])} to {_listed(corners[row, 2:])}, counted from 0, "
            f"reaches outside {picture.item.file} of {picture.width} x {picture.height} pixels; are form and first_pixel right?"
        )
    if scores is None:
        return Proposed(corners[mine], np.linspace(1, 0, len(mine), endpoint=False))
    return Proposed(corners[mine], scores[mine])


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values.tolist())


def read_boxes(path: Path, expected: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """image: str (n,), boxes: float64 (n, 4) unchanged, scores: float64 (n,) or None. expected: sha256 of the file.

    Raises MissingResource, IntegrityError for another digest, InputError with file and row, from 0, for a damaged file,
    objects instead of numbers, no rows, columns of different lengths, numbers that are not finite."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file of boxes")
    if expected is not None:
        check(path, expected)
    columns = _READERS[path.suffix](path)
    image, boxes, scores = columns["image"], columns["boxes"], columns.get(_SCORES)
    shapes = {name: array.shape for name, array in columns.items()}
    if (
        image.ndim != 1
        or boxes.shape != (len(image), 4)
        or not len(image)
        or shapes.get(_SCORES, image.shape) != image.shape
    ):
        raise InputError(f"{path}: shapes {shapes}, expected image (n,), boxes (n, 4) and scores (n,), n at least 1")
    boxes = _numbers(path, "boxes", boxes)
    return _names(path, image), boxes, None if scores is None else _numbers(path, _SCORES, scores)


def _names(path: Path, image: np.ndarray) -> np.ndarray:
    if image.dtype.kind in "Uiu":
        return image.astype(np.str_)
    numbers = _numbers(path, "image", image)
    if (wrong := (numbers != np.round(numbers)) | (np.abs(numbers) > _EXACT)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{path} row {row}: image {numbers[row]:g} is neither a name nor a whole number")
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
        raise InputError(f"{path} row {row}: {name} {numbers[row].tolist()}: not all are finite")
    return numbers


def _npz(path: Path) -> dict[str, np.ndarray]:
    return arrays.read_npz(path, _DAMAGE, _NEEDED, [_SCORES])


def _mat(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a MATLAB file, with columns (n, 1). ``boxes`` may be a cell with an array for each ``image``."""
    from scipy.io import loadmat, whosmat

    memory.require(str(path), path.stat().st_size)
    kind = "no MATLAB file with image and boxes of version 7 or older; save it with '-v7'"
    with _DAMAGE.named(path, kind), warnings.catch_warnings():
        warnings.simplefilter("error")  # scipy only warns of a variable that it cannot read
        variables = [variable for variable in whosmat(path) if variable[0] in (*_NEEDED, _SCORES)]
        memory.require(str(path), sum(math.prod(shape) for _, shape, _ in variables) * _NUMBER_BYTES)
        columns = loadmat(path, variable_names=[name for name, _, _ in variables])
        flat = {name: np.reshape(columns[name], -1) for name, _, _ in variables if name != "boxes"}
        boxes = columns["boxes"]
        return flat | (_joined(flat["image"], boxes.ravel("F")) if boxes.dtype == object else {"boxes": boxes})


def _joined(image: np.ndarray, boxes: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays (k, 4) of pictures, or (k, 5) with the score last, as a row for each box. Raises ValueError."""
    filled = [np.asarray(array, np.float64) for array in boxes]
    rows = np.concatenate([array for array in filled if array.size])
    if len(image) != len(boxes) or rows.ndim != 2 or rows.shape[1] not in (4, 5):
        raise ValueError(
            f"{len(image)} image, {len(boxes)} cells of boxes; expected an array (k, 4) or (k, 5) an image"
        )
    counts = [len(array) if array.size else 0 for array in filled]
    columns = {"image": np.repeat(image, counts), "boxes": rows[:, :4]}
    return columns | ({_SCORES: rows[:, 4]} if rows.shape[1] > 4 else {})


def _csv(path: Path) -> dict[str, np.ndarray]:
    memory.require_text(path)
    types = {"image": pa.string(), **dict.fromkeys([*_CORNERS, "score"], pa.float64())}
    with _DAMAGE.named(path, "no table of image,x1,y1,x2,y2[,score]"):
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=False, null_values=[])
        table = csv.read_csv(path, csv.ReadOptions(use_threads=False), convert_options=options)
        if table.column_names not in (["image", *_CORNERS], list(types)):
            raise ValueError(f"columns {','.join(table.column_names)}")
        image = table["image"].to_numpy().astype(np.str_)
    columns = {"image": image, "boxes": np.stack([table[name].to_numpy() for name in _CORNERS], axis=1)}
    return columns | ({_SCORES: table["score"].to_numpy()} if "score" in table.column_names else {})


_READERS = {".npz": _npz, ".mat": _mat, ".csv": _csv}
