"""What a search has computed or unpacked once, in data/search/: worth something only for the very files it comes from.

Safetensors, read through a memory map, so that a large one costs nothing before it is used. All of it can be removed.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from pipeline.core.console import warn
from pipeline.core.errors import PipelineError
from pipeline.core.files import save_tensors, sha256

_ABOUT = "about"
# Temporary files bear the number of the process; two threads of one must not write at once.
_writing = threading.Lock()


@dataclass(frozen=True)
class Stored:
    """tensors: by name, on the CPU; about: how they came about, as JSON."""

    tensors: dict[str, Tensor]
    about: dict


def read(path: Path, identity: dict, files: Sequence[Path]) -> Stored | None:
    """What ``write`` wrote, None unless it was for this identity and for files of the same content.

    A file of the same size and time of change counts as unchanged, as DVC has it; only another one is read. What is
    damaged is made again, with a warning.
    """
    # safetensors opens the file twice, for header and tensors: another process may put a new one in its place between.
    while (version := _version(path)) is not None:
        found = _read(path, identity, files)
        if _version(path) == version:
            return found
    return None


def _read(path: Path, identity: dict, files: Sequence[Path]) -> Stored | None:
    try:
        with safe_open(path, framework="pt") as file:
            told = json.loads(file.metadata()[_ABOUT])
            if told["identity"] != json.loads(json.dumps(identity)) or not _unchanged(told["files"], files):
                return None
            return Stored({name: file.get_tensor(name) for name in file.keys()}, told["about"])  # noqa: SIM118 (no dictionary)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        warn(f"{path}: damaged ({' '.join(str(error).split())}); it is made again")
        return None


def write(path: Path, content: Stored, identity: dict, files: Sequence[Path]) -> None:
    """Appears whole or not at all, whoever else writes it. Where it cannot be written the search goes on, with a warning."""
    told = {
        "about": content.about,
        "identity": identity,
        "files": {str(file): {**_stamp(file), "sha256": sha256(file)} for file in files},
    }
    try:
        with _writing:
            save_tensors(path, content.tensors, {_ABOUT: json.dumps(told, sort_keys=True)})
    except (OSError, PipelineError) as error:
        warn(f"{path} cannot be kept and the next search makes it again: {error}")


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _unchanged(told: dict, files: Sequence[Path]) -> bool:
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
