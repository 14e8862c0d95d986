"""Files of boxes to arrays, whatever is in them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from scipy import io

from pipeline.core import arrays, memory
from pipeline.core.damage import Damage
from pipeline.core.errors import InputError, MissingResource
from pipeline.core.weights import check

_DAMAGE = Damage(InputError, "write it again")
_NEEDED, _SCORES = ("image", "boxes"), "scores"
_CORNERS = ("x1", "y1", "x2", "y2")
# MATLAB's classes of plain numbers, and the bytes that each takes as a double beside what is stored.
_NUMBERS = ("double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_OF_NUMBER = 16


def read(path: Path, expected: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """image: str (n,), boxes: float64 (n, 4) as they stand there, scores: float64 (n,) or None. expected: the file's sha256.

    Raises MissingResource, IntegrityError for another digest, InputError with file and row: damaged, objects in place of
    numbers, no rows, columns of different lengths, numbers that are not finite.
    """
    if not path.is_file():
        raise MissingResource(f"{path}: no such file of boxes")
    if expected is not None:
        check(path, expected)
    found = {".npz": _npz, ".mat": _mat, ".csv": _csv}[path.suffix](path)
    image, boxes, scores = found["image"], found["boxes"], found.get(_SCORES)
    shapes = {name: array.shape for name, array in found.items()}
    if boxes.shape != (len(image), 4) or image.ndim != 1 or (scores is not None and scores.shape != image.shape):
        raise InputError(f"{path}: shapes {shapes}, expected image (n,), boxes (n, 4) and scores (n,)")
    if not len(image):
        raise InputError(f"{path}: no boxes")
    names = _names(path, image)
    boxes = _numbers(path, "boxes", boxes)
    return names, boxes, None if scores is None else _numbers(path, _SCORES, scores)


def where(path: Path, row: int) -> str:
    """For messages: rows of arrays are counted from 0, those of tables as a spreadsheet does, where the header is row 1."""
    return f"{path} row {row + 2 * (path.suffix == '.csv')}"


def _names(path: Path, image: np.ndarray) -> np.ndarray:
    if image.dtype.kind == "U":
        return image
    whole = _numbers(path, "image", image)
    if (wrong := whole != np.round(whole)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{where(path, row)}: image {whole[row]} is neither a name nor a whole number")
    return whole.astype(np.int64).astype(np.str_)


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path}: {name} holds {values.dtype}, expected numbers")
    found = values.astype(np.float64)
    wrong = ~np.isfinite(found).reshape(len(found), -1).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{where(path, row)}: {name} {found[row].tolist()}: not all are finite")
    return found


def _npz(path: Path) -> dict[str, np.ndarray]:
    return arrays.packed(path, _DAMAGE, _NEEDED, [_SCORES])


def _mat(path: Path) -> dict[str, np.ndarray]:
    """Columns come as (n, 1). What the file holds besides is not read."""
    with _DAMAGE.named(path, "no MATLAB file of version 4 to 7"):
        held = {name: (shape, kind) for name, shape, kind in io.whosmat(path)}
    wanted = [name for name in (*_NEEDED, _SCORES) if name in held or name in _NEEDED]
    for name in wanted:
        shape, kind = held.get(name, ((), "nothing"))
        if kind not in _NUMBERS:
            raise InputError(
                f"{path}: '{name}' is {kind}, expected plain numbers; objects, cells and structs are not read"
            )
        memory.require(f"{path}: {name}", int(np.prod(shape, dtype=object)) * _OF_NUMBER)
    with _DAMAGE.named(path, "no MATLAB file of version 4 to 7"):
        found = io.loadmat(path, variable_names=wanted, mat_dtype=False)
    return {name: found[name].reshape(-1) if name != "boxes" else found[name] for name in wanted}


def _csv(path: Path) -> dict[str, np.ndarray]:
    memory.require_text(path)
    types = {"image": pa.string(), **dict.fromkeys([*_CORNERS, "score"], pa.float64())}
    with _DAMAGE.named(path, "no table of image,x1,y1,x2,y2[,score]"):
        table = csv.read_csv(
            path,
            csv.ReadOptions(use_threads=False),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False, null_values=[]),
        )
        columns = table.column_names
        image = table["image"].to_numpy().astype(np.str_) if "image" in columns else np.zeros(0, np.str_)
    if columns not in (["image", *_CORNERS], list(types)):
        told = ",".join(columns)
        raise InputError(
            f"{path} row 1: expected the columns image,x1,y1,x2,y2 or image,x1,y1,x2,y2,score; found {told!r}"
        )
    found = {"image": image, "boxes": np.stack([table[name].to_numpy() for name in _CORNERS], axis=1)}
    return found | ({_SCORES: table["score"].to_numpy()} if "score" in columns else {})
