"""The one place that opens ``.npy`` and ``.npz`` files, our own and those that users give: nothing is unpickled, no byte taken
on trust."""

import math
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from vse_pipe.core import mapped, memory, parsing, unchanged
from vse_pipe.core.damage import Damage

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_WHAT = "not a whole .npy file"


def opened(path: Path, damage: Damage) -> np.ndarray:
    """The memory map of a whole file; of any type and shape, but never of objects.

    Raises ``damage`` for another kind of file, pickled objects, and another length than the header promises, IntegrityError for
    a file that another one takes the place of.
    """
    before = unchanged.state(path)
    with path.open("rb") as file:
        shape, fortran, kind = _header(file, path.stat().st_size, str(path), damage)
        start = file.tell()
    with damage.named(path, _WHAT):
        if path.stat().st_size == start:  # nothing to map
            return np.empty(shape, kind)
        array = np.memmap(path, kind, "r", start, shape, "F" if fortran else "C")
    mapped.guard(path)
    unchanged.require(path, before)  # the header and the map are two openings
    return array


def packed(path: Path, damage: Damage, names: Sequence[str], others: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The arrays ``names`` of a ``.npz`` file, and those of ``others`` that it has. Raises ``damage`` for another kind of file
    and pickled objects, InputError for more than memory may hold."""
    with damage.named(path, f"no .npz file with plain arrays {' and '.join(names)}"), zipfile.ZipFile(path) as archive:
        memory.require(str(path), sum(member.file_size for member in archive.infolist()))
        there = set(archive.namelist())
        return {
            name: _member(archive, f"{name}.npy", path, damage)
            for name in [*names, *others]
            if name in names or f"{name}.npy" in there
        }


def _member(archive: zipfile.ZipFile, name: str, path: Path, damage: Damage) -> np.ndarray:
    with archive.open(name) as file:
        shape, fortran, kind = _header(file, archive.getinfo(name).file_size, f"{path}: {name}", damage)
        content = file.read()
    if not content:
        return np.empty(shape, kind)
    return np.frombuffer(content, kind).reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], size: int, where: str, damage: Damage) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether its first index runs fastest, and type; ``file`` then stands where the numbers begin. size: of all of it."""
    with damage.named(Path(where), _WHAT), parsing.ALONE, warnings.catch_warnings():
        # Files written by Python 2 have "29000L" in the header, which numpy reads with a warning.
        warnings.simplefilter("ignore", UserWarning)
        shape, fortran, kind = _HEADERS[np.lib.format.read_magic(file)](file)
    if kind.hasobject:
        raise damage.kind(f"{where}: holds pickled Python objects, which are never loaded; save it as plain numbers")
    promised = file.tell() + math.prod(shape) * kind.itemsize
    # Of text without letters any number would take no bytes, and numpy makes room for one letter each.
    if size != promised or not kind.itemsize:
        reason = f"{size} bytes, its header promises {promised}: shape {shape} of {kind}"
        raise damage.kind(f"{where}: {_WHAT} ({reason}); {damage.advice}")
    return shape, fortran, kind
