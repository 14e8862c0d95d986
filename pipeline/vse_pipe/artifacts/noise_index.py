"""The ``.npy`` of a published noise index: read without trust, and checked against the data set."""

from pathlib import Path

import numpy as np

from vse_pipe.core import arrays
from vse_pipe.core.errors import Damage, InputError, IntegrityError, MissingResource
from vse_pipe.core.files import sha256


def read(path: Path, digest: str, n_images: int, n_captions: int) -> np.ndarray:
    """int64 (n_images,) or (n_captions,): positions among the train images, 0 to n_images - 1.

    digest: sha256 of the file, hex. An index per image must be a permutation, as those of RCL and DECL are (some images
    keep their place in them); one per caption may name an image any number of times. Raises MissingResource without
    the file, IntegrityError when it is another one than ``digest`` is of, InputError when it is no such index.
    """
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; put the index file there or correct `path`")
    found = sha256(path)
    if found != digest:
        raise IntegrityError(
            f"{path}: sha256 is {found}, but params.yaml says {digest}; fetch the file again or correct `sha256`"
        )
    index = _array(path)
    if len(index) not in (n_images, n_captions):
        raise InputError(
            f"{path}: {len(index)} entries; expected {n_images}, one per train image, or {n_captions}, one per train caption"
        )
    wrong = np.flatnonzero((index < 0) | (index >= n_images))
    if len(wrong):
        raise InputError(
            f"{path}: entry {wrong[0]} is {index[wrong[0]]}; expected positions 0 to {n_images - 1} of the train images"
        )
    index = index.astype(np.int64)
    if len(index) == n_images:
        _check_permutation(path, index)
    return index


def _array(path: Path) -> np.ndarray:
    array = arrays.open_npy(path, Damage(InputError, "fetch it again"))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{path}: shape {array.shape} of {array.dtype}, expected whole numbers in one dimension")
    return np.array(array)


def _check_permutation(path: Path, index: np.ndarray) -> None:
    counts = np.bincount(index, minlength=len(index))
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        raise InputError(
            f"{path}: position {repeated[0]} occurs {counts[repeated[0]]} times; an index with one entry per image "
            "must hold each position once"
        )
