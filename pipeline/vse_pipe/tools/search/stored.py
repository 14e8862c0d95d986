"""What a search has computed or unpacked once, in data/search/: worth something only for the very files it comes from.

Safetensors, mapped into memory, so that a large one costs nothing before it is used. All of it can be removed. Read and
written as numpy has them, without torch and without a copy.
"""

import json
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vse_pipe.core.console import warn
from vse_pipe.core.errors import PipelineError
from vse_pipe.core.files import sha256
from vse_pipe.core.whole import whole_file

Stamps = dict[Path, dict[str, int]]
_ABOUT = "about"
_KINDS: dict[str, np.dtype] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}
# Bytes of a length, what tensors start at a multiple of, and those of the largest header that is believed.
_LENGTH, _ALIGNED, _LONGEST = 8, 64, 10_000_000
# Temporary files bear the number of the process; two threads of one must not write at once.
_writing = threading.Lock()


@dataclass(frozen=True)
class Stored:
    """tensors: by name, as they lie in the file: what is written to them stays in memory; about: how they came about, as JSON."""

    tensors: dict[str, np.ndarray]
    about: dict


def read(path: Path, identity: dict, files: Collection[Path]) -> Stored | None:
    """What ``write`` wrote, None unless it was for this identity and for files of the same content.

    A file of the same size and time of change counts as unchanged, as DVC has it; only another one is read. What is
    damaged is made again, with a warning.
    """
    # The file is opened twice, for header and tensors: another process may put a new one in its place between.
    while (version := _version(path)) is not None:
        found = _read(path, identity, files)
        if _version(path) == version:
            return found
    return None


def _read(path: Path, identity: dict, files: Collection[Path]) -> Stored | None:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            if not 0 < length <= _LONGEST:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(file.read(length))
        told = json.loads(header.pop("__metadata__")[_ABOUT])
        if told["identity"] != json.loads(json.dumps(identity)) or not _unchanged(told["files"], files):
            return None
        tensors = {name: _mapped(path, one, _LENGTH + length) for name, one in header.items()}
        return Stored(tensors, told["about"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warn(f"{path}: damaged ({' '.join(str(error).split())}); it is made again")
        return None


def _mapped(path: Path, entry: dict, start: int) -> np.ndarray:
    """Private to this process, so that torch may take it as its own. Raises ValueError where it ends before it should."""
    begin, end = entry["data_offsets"]
    kind, shape = _KINDS[entry["dtype"]], tuple(entry["shape"])
    if end - begin != kind.itemsize * int(np.prod(shape, dtype=object)) or start + end > path.stat().st_size:
        raise ValueError(f"no {shape} of {kind} between {begin} and {end}")
    if begin == end:
        return np.empty(shape, kind)
    return np.asarray(np.memmap(path, kind, "c", start + begin, shape))


def stamped(files: Iterable[Path]) -> Stamps:
    """Files as they are now: for ``write``, before anything of them is read."""
    return {file: _stamp(file) for file in files}


def write(path: Path, content: Stored, identity: dict, files: Stamps) -> None:
    """Appears whole or not at all, whoever else writes it. Where it cannot be written, or one of the files is another one by now,
    the search goes on, with a warning."""
    try:
        told = {
            "about": content.about,
            "identity": identity,
            "files": {str(file): {**stamp, "sha256": sha256(file)} for file, stamp in files.items()},
        }
        if stamped(files) != files:
            warn(f"{path}: what it was made from has changed meanwhile; it is not kept")
            return
        with _writing, whole_file(path, sum(tensor.nbytes for tensor in content.tensors.values())) as temporary:
            _save(temporary, content.tensors, json.dumps(told, sort_keys=True))
    except (OSError, PipelineError) as error:
        warn(f"{path} cannot be kept and the next search makes it again: {error}")


def _save(path: Path, tensors: dict[str, np.ndarray], about: str) -> None:
    """safetensors' own writers copy every tensor: of a million vectors that is as much memory again."""
    header: dict[str, dict] = {"__metadata__": {_ABOUT: about}}
    names = {kind: name for name, kind in _KINDS.items()}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(_LENGTH + len(text)) % _ALIGNED)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH, "little") + text)
        for tensor in tensors.values():
            np.ascontiguousarray(tensor).tofile(file)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _unchanged(told: dict, files: Collection[Path]) -> bool:
    if set(told) != {str(file) for file in files}:
        return False
    for file in files:
        was = told[str(file)]
        if _stamp(file) != {key: was[key] for key in ("size", "changed")} and sha256(file) != was["sha256"]:
            return False
    return True


def _stamp(file: Path) -> dict[str, int]:
    stat = file.stat()
    return {"size": stat.st_size, "changed": stat.st_mtime_ns}
