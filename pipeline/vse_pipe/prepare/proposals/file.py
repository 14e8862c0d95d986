"""Boxes from a ``.npz`` file, for example those of EdgeBoxes."""

from functools import partial
from pathlib import Path

import numpy as np

from vse_pipe.core import arrays
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.core.weights import check
from vse_pipe.prepare.proposals.options import FileOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer

_NEEDED, _SCORES = ("image", "boxes"), "scores"


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The boxes of the file for each picture. Raises what ``read_boxes`` raises; InputError for a
    box without area or outside its picture, for a picture without boxes, and for two pictures that
    ``by`` does not distinguish."""
    path = Path(params.path)
    names, boxes, scores = read_boxes(path, params.sha256)
    low = boxes[:, :2] - params.first_pixel
    high = boxes[:, 2:] - params.first_pixel if params.form == "corners" else low + boxes[:, 2:] - 1
    _refuse(np.flatnonzero((high < low).any(axis=1)), path, boxes, f"is a box without area, in the form {params.form}")
    order = np.argsort(names, kind="stable")
    keys, starts = np.unique(names[order], return_index=True)
    rows = dict(zip(keys.tolist(), np.split(order, starts[1:]), strict=True))
    return partial(_proposed, params, rows, np.concatenate([low, high], axis=1), scores, {})


def _refuse(wrong: np.ndarray, path: Path, values: np.ndarray, problem: str) -> None:
    """Raise InputError with the first of the ``wrong`` rows, if any."""
    if len(wrong):
        row = int(wrong[0])
        listed = ", ".join(f"{value:g}" for value in np.atleast_1d(values[row]).tolist())
        raise InputError(f"{path} row {row}: {listed} {problem}")


def _proposed(
    params: Params,
    rows: dict[str, np.ndarray],
    corners: np.ndarray,
    scores: np.ndarray | None,
    owners: dict[str, str],
    picture: Picture,
) -> Proposed:
    file = picture.item.file
    # The name of a member of a shard is the last part.
    keys = {"stem": Path(file.rpartition("::")[2]).stem, "file": file, "image_id": str(picture.item.image_id)}
    key = keys[params.by]
    if key not in rows:
        raise InputError(f"{params.path}: no boxes for {file}, looked for by {params.by} as '{key}'")
    if (owner := owners.setdefault(key, file)) != file:
        raise InputError(f"{params.path}: {owner} and {file} are both '{key}'; set by: file, and name them so")
    boxes = corners[rows[key]]
    is_outside = (boxes < 0).any(axis=1) | (boxes[:, 2:] > (picture.width - 1, picture.height - 1)).any(axis=1)
    if is_outside.any():
        raise InputError(
            f"{params.path} row {rows[key][is_outside][0]}: the box reaches outside {file} of {picture.width} x "
            f"{picture.height} pixels; are form and first_pixel right?"
        )
    if scores is None:
        return Proposed(boxes, np.linspace(1, 0, len(boxes), endpoint=False))
    return Proposed(boxes, scores[rows[key]])


def read_boxes(path: Path, expected: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """image: str (n,), boxes: float64 (n, 4) unchanged, scores: float64 (n,) or None. expected:
    sha256 of the file.

    Raises MissingResource, IntegrityError for another digest, InputError with file and row, from 0,
    for a damaged file, objects instead of numbers, no rows, columns of different lengths, numbers
    that are not finite."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file of boxes")
    if expected is not None:
        check(path, expected)
    columns = arrays.read_npz(path, InputError, _NEEDED, [_SCORES])
    image, shapes = columns["image"], {name: array.shape for name, array in columns.items()}
    expected_shapes = {"image": image.shape, "boxes": (*image.shape, 4), _SCORES: image.shape}
    if image.ndim != 1 or not len(image) or any(shape != expected_shapes[name] for name, shape in shapes.items()):
        raise InputError(f"{path}: shapes {shapes}, expected image (n,), boxes (n, 4) and scores (n,), n at least 1")
    if image.dtype.kind == "f" and (image == np.round(image)).all():
        image = image.astype(np.int64)
    if image.dtype.kind not in "Uiu":
        raise InputError(f"{path}: image holds {image.dtype}, expected names or whole numbers")
    scores = _numbers(path, _SCORES, columns[_SCORES]) if _SCORES in columns else None
    return image.astype(np.str_), _numbers(path, "boxes", columns["boxes"]), scores


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path}: {name} holds {values.dtype}, expected numbers")
    numbers = values.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1))
    _refuse(wrong, path, numbers, f"are {name} that are not all finite")
    return numbers
