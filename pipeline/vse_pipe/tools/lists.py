"""data/code/ and data/sources/: for each stage of dvc.yaml a list of its modules and a list of its files from
outside."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vse_pipe
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths, sources
from vse_pipe.project.sources import SourceFiles

# Results of the last call. DVC starts a call at every `dvc repro`, and most of its time would go into imports and
# params.yaml.
CODE_CACHE = Path(".dvc") / "tmp" / "code.json"
SOURCES_CACHE = Path(".dvc") / "tmp" / "sources.json"


def write_code(overrides: list[str], find: Callable[[], dict[str, str]]) -> None:
    """Write ``paths.CODE`` in the working directory, whole or not at all.

    find: returns the lists by stage, as ``vse_pipe.project.code.listings``. It is called only if params.yaml,
    ``overrides`` or a module of this package has changed since the last call.
    """
    state = state_of(overrides)
    lists = _cached(CODE_CACHE, state, "lists")
    if lists is None:
        lists = find()
        _cache(CODE_CACHE, state, "lists", lists)
    with claim(paths.CODE):
        _write(paths.CODE, {paths.code(stage): f"{text}\n" for stage, text in lists.items()})


def write_sources(overrides: list[str], find: Callable[[], dict[str, list[SourceFiles]]]) -> None:
    """Write ``paths.SOURCES`` in the working directory, whole or not at all; nothing if it is up to date.

    find: returns the files by stage, as ``vse_pipe.project.stages.sources``. It is called only if params.yaml,
    ``overrides``, a module of this package, or a file that lists other files has changed since the last call.
    """
    state = state_of(overrides)
    with claim(paths.SOURCES):
        before = _texts()
        cached = _cached(SOURCES_CACHE, state, "files")
        try:
            files = {stage: list(map(SourceFiles.from_json, rows)) for stage, rows in (cached or {}).items()}
            now = _listed(find() if cached is None else files, before)
        except sources.NamesUnknown:
            cached, now = None, _listed(find(), before)
        if cached is None and SOURCES_CACHE.parents[1].is_dir():
            rows = {stage: [group.as_json() for group in groups] for stage, groups in find().items()}
            _cache(SOURCES_CACHE, state, "files", rows)
        if now != before:
            _write(paths.SOURCES, {paths.sources(stage): text for stage, text in now.items()})


def state_of(overrides: list[str]) -> str:
    """Digest of params.yaml, ``overrides``, and the name, time and size of every file of the package."""
    files = [path for path in sorted(Path(vse_pipe.__file__).parent.rglob("*.*")) if "__pycache__" not in path.parts]
    stats = [(str(path), status.st_mtime_ns, status.st_size) for path in files for status in [path.stat()]]
    return hashlib.sha256(json.dumps([paths.PARAMS.read_bytes().hex(), overrides, stats]).encode()).hexdigest()


def _cached(path: Path, state: str, key: str) -> dict[str, Any] | None:
    """The lists that an earlier call wrote for this state, else None."""
    try:
        content = read_json(path)
    except InputError:  # missing or damaged
        return None
    return content[key] if content.get("state") == state else None


def _cache(path: Path, state: str, key: str, lists: dict[str, Any]) -> None:
    if path.parents[1].is_dir():
        write_json(path, {"state": state, key: lists})


def _write(folder: Path, texts: dict[Path, str]) -> None:
    with whole_folder(folder) as building:
        for path, text in texts.items():
            file = building / path.relative_to(folder)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="surrogateescape")


def _listed(files: dict[str, list[SourceFiles]], before: dict[str, str]) -> dict[str, str]:
    return {stage: sources.listing(groups, before.get(stage, "")) for stage, groups in files.items()}


def _texts() -> dict[str, str]:
    files = [path for path in paths.SOURCES.rglob("*") if path.is_file()]
    texts = [path.read_text(encoding="utf-8", errors="surrogateescape") for path in files]
    return {"@".join(path.relative_to(paths.SOURCES).parts): text for path, text in zip(files, texts, strict=True)}
