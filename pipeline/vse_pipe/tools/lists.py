"""data/code/: a list for each stage of dvc.yaml, of the modules that decide what it writes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import vse_pipe
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths, sources
from vse_pipe.project.sources import SourceFiles

# What the last call found: DVC starts one at every `dvc repro`, and imports are most of what it takes to find it anew.
KEPT = Path(".dvc") / "tmp" / "code.json"


def write_code(overrides: list[str], find: Callable[[], dict[str, str]]) -> None:
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


# Which files these are. DVC starts a call at every `dvc repro`, and reading params.yaml is most of what it takes to find out.
KEPT_SOURCES = Path(".dvc") / "tmp" / "sources.json"


def write_sources(overrides: list[str], find: Callable[[], dict[str, list[SourceFiles]]]) -> None:
    """Write ``paths.SOURCES`` in the working directory, whole or not at all; nothing where it is as it was.

    find: gives the files by stage, as ``vse_pipe.project.stages.sources``; called only where params.yaml, ``overrides``, a module of
    this package, or a file that lists others is not what it was at the last call.
    """
    state = state_of(overrides)
    with claim(paths.SOURCES):
        before = _texts()
        kept = _kept_sources(state)
        try:
            now = _listed(find() if kept is None else kept, before)
        except sources.NamesUnknown:
            kept = None
            now = _listed(find(), before)
        if kept is None and KEPT_SOURCES.parents[1].is_dir():
            content = {stage: [one.as_json() for one in files] for stage, files in find().items()}
            write_json(KEPT_SOURCES, {"state": state, "files": content})
        if now != before:
            with whole_folder(paths.SOURCES) as building:
                for stage, text in now.items():
                    file = building / paths.sources(stage).relative_to(paths.SOURCES)
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(text, encoding="utf-8", errors="surrogateescape")


def _listed(files: dict[str, list[SourceFiles]], before: dict[str, str]) -> dict[str, str]:
    return {stage: sources.listing(groups, before.get(stage, "")) for stage, groups in files.items()}


def _texts() -> dict[str, str]:
    """By stage, as they are in ``paths.SOURCES``."""
    files = [path for path in paths.SOURCES.rglob("*") if path.is_file()]
    stages = ["@".join(path.relative_to(paths.SOURCES).parts) for path in files]
    texts = [path.read_text(encoding="utf-8", errors="surrogateescape") for path in files]
    return dict(zip(stages, texts, strict=True))


def _kept_sources(state: str) -> dict[str, list[SourceFiles]] | None:
    try:
        kept = read_json(KEPT_SOURCES)
    except InputError:  # not there, or damaged
        return None
    if kept.get("state") != state:
        return None
    return {stage: [SourceFiles.from_json(one) for one in files] for stage, files in kept["files"].items()}
