"""Boxes from a ``.npz`` file, for example those of EdgeBoxes."""

from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from vse_pipe.core import arrays
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.proposals.options import FileOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer

_NEEDED, _SCORES = ("image", "boxes"), "scores"


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The boxes of the file for each picture. Raises what ``read_boxes`` raises; InputError for a
    picture without boxes, and for a box outside its picture."""
    path = Path(params.path)
    names, boxes, scores = read_boxes(path)
    order = np.argsort(names, kind="stable")
    keys, starts = np.unique(names[order], return_index=True)
    rows = dict(zip(keys.tolist(), np.split(order, starts[1:]), strict=True))
    return partial(_proposed, path, rows, boxes, scores)


def _refuse(wrong: np.ndarray, path: Path, values: np.ndarray, problem: str) -> None:
    """Raise InputError with the first of the ``wrong`` rows, if any."""
    if len(wrong):
        row = int(wrong[0])
        listed = ", ".join(f"{value:g}" for value in np.atleast_1d(values[row]).tolist())
        raise InputError(f"{path} row {row}: {listed} {problem}")


def _proposed(
    path: Path, rows: dict[str, np.ndarray], boxes: np.ndarray, scores: np.ndarray | None, picture: Picture
) -> Proposed:
    name = str(PurePosixPath(picture.item.file).with_suffix(""))
    if name not in rows:
        raise InputError(f"{path}: no boxes for {picture.item.file}, looked for as '{name}'")
    chosen, edge = rows[name], (picture.width - 1, picture.height - 1)
    outside = (boxes[chosen, :2] < 0).any(axis=1) | (boxes[chosen, 2:] > edge).any(axis=1)
    size = f"{picture.item.file} of {picture.width} x {picture.height} pixels"
    _refuse(chosen[outside], path, boxes, f"reaches outside {size}")
    ranked = np.linspace(1, 0, len(chosen), endpoint=False) if scores is None else scores[chosen]
    return Proposed(boxes[chosen], ranked)


def read_boxes(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """image: str (n,), boxes: float64 (n, 4) unchanged, scores: float64 (n,) or None.

    Raises MissingResource, InputError with file and row, from 0, for a damaged file, objects
    instead of numbers, no rows, columns of different lengths, numbers that are not finite, a box
    without area."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file of boxes")
    columns = arrays.read_npz(path, InputError, _NEEDED, [_SCORES])
    image, shapes = columns["image"], {name: array.shape for name, array in columns.items()}
    expected = {"image": image.shape, "boxes": (*image.shape, 4), _SCORES: image.shape}
    fits = image.ndim == 1 and len(image) and shapes == {name: expected[name] for name in shapes}
    kinds = {name: "Uiu" if name == "image" else "fiu" for name in columns}
    if not fits or any(array.dtype.kind not in kinds[name] for name, array in columns.items()):
        listed = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in columns.items())
        raise InputError(f"{path}: {listed}; expected names image (n,), numbers boxes (n, 4), scores (n,)")
    boxes, scores = columns["boxes"].astype(np.float64), columns.get(_SCORES)
    for name, values in (("boxes", boxes), (_SCORES, scores)):
        if values is not None:
            finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
            _refuse(np.flatnonzero(~finite), path, values, f"are {name} that are not all finite")
    _refuse(np.flatnonzero((boxes[:, 2:] < boxes[:, :2]).any(axis=1)), path, boxes, "is a box without area")
    return image.astype(np.str_), boxes, scores
