"""The one place that opens ``.npy`` and ``.npz`` files, our own and those that users give: nothing is unpickled, no byte taken
on trust."""

import math
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.core import mapped, memory
from pipeline.core.damage import Damage

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_WHAT = "not a whole .npy file"


def opened(path: Path, damage: Damage) -> np.ndarray:
    """The memory map of a whole file; of any type and shape, but never of objects.

    Raises ``damage`` for another kind of file, pickled objects, and another length than the header promises.
    """
    with path.open("rb") as file, damage.named(path, _WHAT), warnings.catch_warnings():
        # Files written by Python 2 have "29000L" in the header, which numpy reads with a warning.
        warnings.simplefilter("ignore", UserWarning)
        shape, fortran, kind = _HEADERS[np.lib.format.read_magic(file)](file)
        start = file.tell()
    if kind.hasobject:
        raise damage.kind(f"{path}: holds pickled Python objects, which are never loaded; save it as plain numbers")
    size, promised = path.stat().st_size, start + math.prod(shape) * kind.itemsize
    if size != promised:
        reason = f"{size} bytes, its header promises {promised}: shape {shape} of {kind}"
        raise damage.kind(f"{path}: {_WHAT} ({reason}); {damage.advice}")
    with damage.named(path, _WHAT):
        if size == start:  # nothing to map
            return np.empty(shape, kind)
        array = np.memmap(path, kind, "r", start, shape, "F" if fortran else "C")
    mapped.guard(path)
    return array


def packed(path: Path, damage: Damage, names: Sequence[str], others: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The arrays ``names`` of a ``.npz`` file, and those of ``others`` that it has. Raises ``damage`` for another kind of file
    and pickled objects, InputError for more than memory may hold."""
    with damage.named(path, f"no .npz file with plain arrays {' and '.join(names)}"):
        with zipfile.ZipFile(path) as file:
            memory.require(str(path), sum(member.file_size for member in file.infolist()))
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251 (of an archive)
            found = {name: file[name] for name in [*names, *(one for one in others if one in file)]}
        if not all(isinstance(array, np.ndarray) for array in found.values()):
            raise TypeError("members of another kind")
    return found
