"""Features somebody else computed: rows of ``.npy`` files, passed through in the data set's order."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from pipeline.core.errors import InputError, IntegrityError
from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import FeatureParams
from pipeline.pictures.images import Item
from pipeline.project import paths


class Params(FeatureParams):
    """As they are, by default: not normalised and in the type they have (float64 becomes float32)."""

    normalise: bool = False
    store: Literal["float32", "float16"] | None = None
    batch_size: PositiveInt = 1024


def build(params: Params, seed: int) -> Backbone:
    """(D) or (R, D) a row; ``file`` in images.parquet is ``<name>.npy#<row>`` below the image root.

    ``read`` raises InputError for another form of name, a missing or damaged file, a row that does not exist, other
    types or shapes and values that are not finite; IntegrityError when a row is not what ``prepare`` saw.
    """
    from torch import nn

    opened = cache(_opened)

    def read(root: Path, item: Item) -> np.ndarray:
        name, number = _parsed(item)
        return _row(opened(paths.inside(root, name, item.where)), number, item)

    return Backbone(read=read, module=nn.Identity(), about={"network": "precomputed"}, libraries=())


def _parsed(item: Item) -> tuple[str, int]:
    match = re.fullmatch(r"(.+\.npy)#(\d+)", item.file)
    if match is None:
        raise InputError(
            f"{item.where}: file {item.file!r} names no row of features, expected <name>.npy#<row>; precomp needs a data set of precomputed features"
        )
    return match[1], int(match[2])


def _opened(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable .npy file ({error})") from error
    if array.ndim not in (2, 3) or array.dtype.kind != "f":
        raise InputError(
            f"{path}: {array.dtype} {array.shape}, expected (rows, D) or (rows, R, D) of floating point numbers"
        )
    return array


def _row(array: np.ndarray, number: int, item: Item) -> np.ndarray:
    if number >= len(array):
        raise InputError(f"{item.where}: {item.file} does not exist, the file has {len(array)} rows")
    row = np.ascontiguousarray(array[number])
    if item.sha256 and hashlib.sha256(row).hexdigest() != item.sha256:
        raise IntegrityError(
            f"{item.where}: {item.file} changed after prepare read it; run `vse-pipe prepare` again"
        )
    if not np.isfinite(row).all():
        raise InputError(f"{item.where}: {item.file} holds NaN or infinite values")
    return row.astype(np.float32) if row.dtype == np.float64 else row
