"""data/code/: a list for each stage of dvc.yaml, of the modules that decide what it writes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import vse_pipe
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths

# What the last call found: DVC starts one at every `dvc repro`, and imports are most of what it takes to find it anew.
KEPT = Path(".dvc") / "tmp" / "code.json"


def write(overrides: list[str], find: Callable[[], dict[str, str]]) -> None:
    """Write ``paths.CODE`` in the working directory, whole or not at all.

    find: gives the lists by stage, as ``vse_pipe.project.code.listings``; called only where params.yaml, ``overrides`` or a
    module of this package is not what it was when the lists were found last.
    """
    state = state_of(overrides)
    lists = _kept(state)
    if lists is None:
        lists = find()
        if KEPT.parents[1].is_dir():
            write_json(KEPT, {"state": state, "lists": lists})
    with claim(paths.CODE), whole_folder(paths.CODE) as building:
        for stage, text in lists.items():
            file = building / paths.code(stage).relative_to(paths.CODE)
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n", encoding="utf-8")


def state_of(overrides: list[str]) -> str:
    """Of params.yaml and of the package: name, time and size of every file, as for byte code."""
    files = [path for path in sorted(Path(vse_pipe.__file__).parent.rglob("*.*")) if "__pycache__" not in path.parts]
    seen = [(str(path), status.st_mtime_ns, status.st_size) for path in files for status in [path.stat()]]
    return hashlib.sha256(json.dumps([paths.PARAMS.read_bytes().hex(), overrides, seen]).encode()).hexdigest()


def _kept(state: str) -> dict[str, str] | None:
    try:
        kept = read_json(KEPT)
    except InputError:  # not there, or damaged: found anew
        return None
    return kept["lists"] if kept.get("state") == state else None
