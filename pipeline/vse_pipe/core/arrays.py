"""``.npy`` and ``.npz`` files: nothing is unpickled, and every size is checked."""

import warnings
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from vse_pipe.core import memory
from vse_pipe.core.errors import PipelineError, damaged


def open_npy(path: Path, kind: type[PipelineError]) -> np.ndarray:
    """The memory map of a file of any type and shape, except objects. Raises ``kind`` for another
    kind of file, pickled objects or a length other than in its header."""
    with damaged(path, "not a whole .npy file", kind), warnings.catch_warnings():
        # Files written by Python 2 have "29000L" in the header, which numpy reads with a warning.
        warnings.simplefilter("ignore", UserWarning)
        array = np.lib.format.open_memmap(path, mode="r")  # noqa: TID251 (here it is bounded)
        _require_plain(array)
        size, promised = path.stat().st_size, array.offset + array.nbytes
        if size != promised:
            raise ValueError(f"{size} bytes, its header promises {promised}: shape {array.shape} of {array.dtype}")
    return array


def read_npz(
    path: Path, kind: type[PipelineError], names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The arrays ``names`` of a ``.npz`` file, and those of ``optional`` that exist. Raises
    ``kind`` for another kind of file and pickled objects, InputError for too much memory."""
    with damaged(path, f"no .npz file with plain arrays {' and '.join(names)}", kind), zipfile.ZipFile(path) as archive:
        members = {name: f"{name}.npy" for name in [*names, *optional]}
        present = {name: member for name, member in members.items() if name in names or member in archive.namelist()}
        memory.require(str(path), sum(archive.getinfo(member).file_size for member in present.values()))
        return {name: _member(archive.read(member)) for name, member in present.items()}


def _member(content: bytes) -> np.ndarray:
    try:
        array = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
    except MemoryError as error:  # the header says more than the member holds
        raise ValueError(str(error)) from error
    _require_plain(array)
    return array


def _require_plain(array: np.ndarray) -> None:
    """Texts of no letters take no bytes in any number, and a letter each once they are used."""
    if not array.dtype.itemsize:
        raise ValueError(f"shape {array.shape} of {array.dtype}")
