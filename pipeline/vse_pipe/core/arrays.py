"""The one place that opens ``.npy`` and ``.npz`` files, our own and those that users give: nothing is unpickled, no byte taken
on trust.
"""

import math
import mmap
import platform
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from vse_pipe.core import mapped, memory, text
from vse_pipe.core.errors import Damage, IntegrityError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_WHAT = "not a whole .npy file"


def open_npy(path: Path, damage: Damage) -> np.ndarray:
    """The memory map of a whole file; of any type and shape, but never of objects.

    Raises ``damage`` for another kind of file, pickled objects, and another length than the header promises, IntegrityError for
    a file that another one takes the place of.
    """
    before = mapped.file_state(path)
    with path.open("rb") as file:
        shape, fortran, kind = _header(file, path.stat().st_size, str(path), damage)
        start = file.tell()
    with damage.named(path, _WHAT):
        if path.stat().st_size == start:  # nothing to map
            return np.empty(shape, kind)
        array = np.memmap(path, kind, "r", start, shape, "F" if fortran else "C")
    mapped.guard(path)
    mapped.require_state(path, before)  # the header and the map are two openings
    return array


def read_npz(path: Path, damage: Damage, names: Sequence[str], others: Sequence[str] = ()) -> dict[str, np.ndarray]:
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
    with damage.named(Path(where), _WHAT), text.ALONE, warnings.catch_warnings():
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


_ALIGNED = 64


def pack(tensor) -> tuple[np.ndarray, list[int], str, str]:
    """An array, the order of the axes, dtype and device: with its axes in the order in which they lie in memory, which the last bits of a product can depend on."""
    import torch

    plain = tensor.detach().cpu()
    if plain.dtype == torch.bfloat16:  # numpy has none
        plain = plain.float()
    axes = sorted(range(plain.ndim), key=plain.stride, reverse=True)
    return plain.permute(axes).numpy(), axes, str(tensor.dtype).removeprefix("torch."), tensor.device.type


def unpack(found: tuple[np.ndarray, list[int], str, str]):
    """Not to be written into where it is shared. A tensor for a parameter too: nothing is trained here."""
    import torch

    array, axes, dtype, device = found
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        tensor = torch.from_numpy(array)
    tensor = tensor.to(device, getattr(torch, dtype))
    if tensor.data_ptr() % _ALIGNED:  # the last bits of a product can depend on the address of its factors
        tensor = tensor.clone()
    return tensor.permute(np.argsort(axes).tolist())


def place(array: np.memmap) -> tuple | np.ndarray:
    """Of a view the numbers themselves: it does not say where in the file it begins."""
    if not isinstance(array.base, mmap.mmap) or array.filename is None:
        return np.array(array)
    order = "C" if array.flags.c_contiguous else "F"
    about = platform.node(), mapped.state_of(array)
    return str(array.filename), array.dtype.str, array.offset, array.shape, order, *about


def open_array(found: tuple | np.ndarray) -> np.ndarray:
    """Of what ``place`` gave, wherever the file lies at the same path. Raises IntegrityError for another file than was meant: on other
    machines, which may have a copy, one of another size."""
    if isinstance(found, np.ndarray):
        return found
    name, dtype, offset, shape, order, node, before = found
    if platform.node() == node:
        mapped.require_state(Path(name), before)
    elif (size := Path(name).stat().st_size) != before[1]:
        raise IntegrityError(f"{name}: {size} bytes on node {platform.node()}, {before[1]} on {node}; copy it again")
    return np.memmap(name, dtype, "r", offset, shape, order)
