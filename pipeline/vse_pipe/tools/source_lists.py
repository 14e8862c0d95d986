"""data/sources/: a list for each stage of dvc.yaml, of the files from outside of the pipeline that it reads."""

from collections.abc import Callable
from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths, sources
from vse_pipe.project.sources import SourceFiles
from vse_pipe.tools.code_lists import state_of

# Which files these are. DVC starts a call at every `dvc repro`, and reading params.yaml is most of what it takes to find out.
KEPT = Path(".dvc") / "tmp" / "sources.json"


def write(overrides: list[str], find: Callable[[], dict[str, list[SourceFiles]]]) -> None:
    """Write ``paths.SOURCES`` in the working directory, whole or not at all; nothing where it is as it was.

    find: gives the files by stage, as ``vse_pipe.project.stages.sources``; called only where params.yaml, ``overrides``, a module of
    this package, or a file that lists others is not what it was at the last call.
    """
    state = state_of(overrides)
    with claim(paths.SOURCES):
        before = _texts()
        kept = _kept(state)
        try:
            now = _listed(find() if kept is None else kept, before)
        except sources.NamesUnknown:
            kept = None
            now = _listed(find(), before)
        if kept is None and KEPT.parents[1].is_dir():
            content = {stage: [one.as_json() for one in files] for stage, files in find().items()}
            write_json(KEPT, {"state": state, "files": content})
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


def _kept(state: str) -> dict[str, list[SourceFiles]] | None:
    try:
        kept = read_json(KEPT)
    except InputError:  # not there, or damaged
        return None
    if kept.get("state") != state:
        return None
    return {stage: [SourceFiles.from_json(one) for one in files] for stage, files in kept["files"].items()}
