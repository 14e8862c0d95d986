"""Corrections on disk: worth something only for the very embeddings, bank, criterion and parameters they come from."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from pipeline.artifacts._files import save_tensors, sha256
from pipeline.console import warn
from pipeline.errors import PipelineError

_BIAS, _ABOUT = "bias", "about"
# Temporary files bear the number of the process; two threads of one must not write at once.
_writing = threading.Lock()


@dataclass(frozen=True)
class Kept:
    """The score ``scale * s - bias``; about: how it came about, as JSON."""

    scale: float
    bias: Float64[np.ndarray, " items"]
    about: dict


def read(path: Path, identity: dict, files: Sequence[Path]) -> Kept | None:
    """What ``write`` wrote, None unless it was for this identity and for files of the same content.

    A file of the same size and time of change counts as unchanged, as DVC has it; only another one is read. What is
    damaged is made again, with a warning.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            told = json.loads((file.metadata() or {})[_ABOUT])
            found = Kept(told["scale"], file.get_tensor(_BIAS), told["about"])
        fits = told["identity"] == json.loads(json.dumps(identity)) and _unchanged(told["files"], files)
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        warn(f"{path}: damaged ({' '.join(str(error).split())}); it is made again")
        return None
    return found if fits else None


def write(path: Path, content: Kept, identity: dict, files: Sequence[Path]) -> None:
    """Appears whole or not at all, whoever else writes it. Where it cannot be written the search goes on, with a warning."""
    told = {
        "scale": content.scale,
        "about": content.about,
        "identity": identity,
        "files": {str(file): {**_stamp(file), "sha256": sha256(file)} for file in files},
    }
    try:
        with _writing:
            save_tensors(path, {_BIAS: content.bias}, {_ABOUT: json.dumps(told, sort_keys=True)})
    except (OSError, PipelineError) as error:
        warn(f"the correction cannot be kept and the next search computes it again: {error}")


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
