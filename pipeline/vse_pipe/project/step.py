"""Seconds each stage took, kept beside its output: ``data/train/sum.timing.json``.

Beside and not inside: outputs hold the same bytes whenever they are made from the same inputs, seconds do not.
"""

import math
from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, write_json


def timing_file(out: Path) -> Path:
    return out.with_name(out.name + ".timing.json")


def record(out: Path, seconds: float, earlier: bool = False) -> None:
    """earlier: add to what an interrupted call of the same work has already spent."""
    path = timing_file(out)
    spent = _seconds(path) if earlier and path.is_file() else 0.0
    write_json(path, {"seconds": round(spent + seconds, 3)})


def timing_of(out: Path) -> float | None:
    """Seconds that ``out`` took; None where it was never made here."""
    path = timing_file(out)
    return _seconds(path) if path.is_file() else None


def _seconds(path: Path) -> float:
    found = read_json(path).get("seconds")
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise InputError(f"{path}: holds no number of seconds; remove it")
    return found
