"""Overlays: named changes to params.yaml that ship with the package, or a file of the user's own."""

import copy
from collections.abc import Iterable
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pipeline.core.errors import UsageError
from pipeline.core.files import whole_file
from pipeline.core.unknown import unknown
from pipeline.project.params.document import read_document, with_overrides
from pipeline.project.params.load import Check, load

FOLDER = Path(__file__).parent / "overlays"
# What exists is replaced whole, or `dvc repro` would go on preparing data sets the overlay does not speak of.
REPLACED = ("grid", "datasets", "features", "texts", "noises", "runs", "ensembles")


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(overlay: str) -> Path:
    """A packaged overlay by name, or a YAML file by path. Raises UsageError with the near miss."""
    if overlay in names():
        return FOLDER / f"{overlay}.yaml"
    if Path(overlay).is_file():
        return Path(overlay)
    raise UsageError(f"{unknown('overlay', overlay, names())}, or a YAML file")


def apply(params: Path, overlay: str, overrides: list[str], further: Iterable[Check] = ()) -> None:
    """Write ``overlay`` and then ``overrides`` into ``params``, comments kept. Nothing is written unless all of it validates.

    further: as of ``load``.
    """
    changes = read_document(find(overlay))
    read_document(params)  # the editor that keeps comments does not say what is wrong with a file
    editor = YAML()
    editor.width = 120
    content = editor.load(params.read_text(encoding="utf-8"))
    if "runs" in changes:
        _forget_runs(content)
    for section, values in changes.items():
        if section in REPLACED or not isinstance(values, dict) or not isinstance(content.get(section), dict):
            content[section] = copy.deepcopy(values)
        else:
            _merge(content[section], values)
    content["ensembles"] = _on_one_line(content.get("ensembles") or {})
    with_overrides(content, overrides, params.name)
    with whole_file(params) as temporary:
        with temporary.open("w", encoding="utf-8") as file:
            editor.dump(content, file)
        load(temporary, shown_as=params.name, further=further)


def _on_one_line(values: dict) -> CommentedMap:
    """In braces: the editor would write a block below the heading that follows ``ensembles: {}``."""
    made = CommentedMap(values)
    made.fa.set_flow_style()
    return made


def _forget_runs(content: dict) -> None:
    """Take out what names the runs that go. Ensembles and audits stay as empty entries: dvc.yaml looks for them."""
    content["ensembles"] = {}
    if isinstance(content.get("report"), dict):
        content["report"].pop("sweeps", None)
        content["report"]["audits"] = []


def _merge(into: dict, values: dict) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
