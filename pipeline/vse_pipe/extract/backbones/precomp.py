"""Features from another source: rows of ``.npy`` files, in the order of the data set."""

import hashlib
import re
from pathlib import Path

import numpy as np
from torch import nn

from vse_pipe.core import arrays
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.core.files import inside
from vse_pipe.extract.backbones.options import PrecompOptions as Params
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures.images import Item


def build(params: Params, seed: int) -> Backbone:
    """Rows (D,) or (R, D); ``file`` in images.parquet is ``<name>.npy#<row>`` below the image root.

    ``read`` raises InputError for another form of name, a missing or damaged file, a row that does
    not exist; UnreadableImage for values that are not finite; IntegrityError for a row that has
    changed since ``prepare``."""
    opened: dict[tuple[Path, str], np.ndarray] = {}

    def read(root: Path, item: Item) -> np.ndarray:
        name, number = _parsed(item)
        if (root, name) not in opened:  # two threads may open the same file, which does no harm
            opened[root, name] = arrays.open_npy(inside(root, name, item.where), InputError)
        return _row(opened[root, name], number, item)

    return Backbone(read=read, module=nn.Identity(), about={"network": "precomputed"}, libraries=())


def _parsed(item: Item) -> tuple[str, int]:
    match = re.fullmatch(r"(.+\.npy)#(\d+)", item.file)
    if match is None:
        raise InputError(
            f"{item.where}: file {item.file!r} names no row of features, expected <name>.npy#<row>; precomp needs a data set of precomputed features"
        )
    return match[1], int(match[2])


def _row(array: np.ndarray, number: int, item: Item) -> np.ndarray:
    if array.ndim < 2 or number >= len(array):
        raise InputError(f"{item.where}: {item.file} does not exist, the file has shape {array.shape}")
    row = np.ascontiguousarray(array[number])
    if item.sha256 and hashlib.sha256(row.data).hexdigest() != item.sha256:
        raise IntegrityError(f"{item.where}: {item.file} changed after prepare read it; run `vse-pipe prepare` again")
    if not np.isfinite(row).all():
        raise UnreadableImage(item.file, "holds NaN or infinite values")
    return row.astype(np.float32) if row.dtype == np.float64 else row
