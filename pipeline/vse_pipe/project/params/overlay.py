"""Overlays: changes to params.yaml, packaged by name or in a user's file. Other sections and all
comments of the file stay."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from vse_pipe.core.errors import ParamsError, UsageError, unknown
from vse_pipe.core.files import whole_file
from vse_pipe.project import paths
from vse_pipe.project.params.document import parse_yaml, plain, read_document, with_overrides
from vse_pipe.project.params.load import Check, load

FOLDER = Path(__file__).parent / "overlays"
# The folder of code in a clone, and the format whose source is code.
_CODE, _RENDERED = "pipeline", "shapes"
# Sections of named entries. An entry is replaced completely: old options may not exist in the new
# members.
NODES = ("datasets", "features", "texts", "noises", "teachers", "runs", "ensembles", "transfers")
# The width of DVC, which writes params.yaml too.
_WIDTH = 80
_SECTION = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
_COMMENTS = re.compile(r"(?:^[ \t]*(?:#.*)?\n)*\Z", re.MULTILINE)


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
    """Write ``overlay`` and then ``overrides`` into ``params``, if the result is valid. Other lines
    stay.

    Nodes are merged by name and other sections by key; with ``replace: nodes`` the only nodes are
    those of the overlay. further: as for ``load``. In a project without code, the source of
    rendered data is the file with the package's version, which DVC watches.
    """
    source = find(overlay)
    changes = read_document(source)
    replaced = changes.pop("replace", None)
    content = read_document(params)
    if replaced == "nodes":
        _forget_nodes(content)
    elif replaced is not None:
        raise ParamsError(f"{source.name} replace: expected nodes, got {replaced!r}")
    _add(content, changes)
    if (params.parent / paths.REQUIREMENTS).is_file():
        _name_version(content, params.parent)
    with_overrides(content, overrides, params.name)
    _write(params, content, further)


def add(params: Path, changes: dict[str, dict], further: Iterable[Check] = ()) -> None:
    """``apply`` for an overlay that is no file."""
    content = read_document(params)
    _add(content, changes)
    _write(params, content, further)


def edit(params: Path, overrides: list[str], further: Iterable[Check] = ()) -> None:
    """Write ``overrides``, if valid, into ``params``. further: as for ``load``."""
    content = read_document(params)
    _write(params, with_overrides(content, overrides, params.name), further)


def _add(content: dict, changes: dict) -> None:
    for section, values in changes.items():
        existing = content.get(section)
        if not (existing and isinstance(existing, dict) and isinstance(values, dict)):
            content[section] = plain(values)
        elif section in NODES:
            existing.update(plain(values))
        else:
            _merge(existing, values)


def _name_version(content: dict, root: Path) -> None:
    nodes = content.get("datasets")
    for node in nodes.values() if isinstance(nodes, dict) else ():
        source = node.get("source") if isinstance(node, dict) and node.get("format") == _RENDERED else None
        if isinstance(source, str) and Path(source).parts[:1] == (_CODE,) and not (root / source).exists():
            node["source"] = str(paths.REQUIREMENTS)


def _write(params: Path, content: dict, further: Iterable[Check]) -> None:
    try:
        text = edited(params.read_text(encoding="utf-8"), content)
    except ValueError as error:
        raise ParamsError(f"{params.name}: {error}") from error
    with whole_file(params) as temporary:
        temporary.write_text(text, encoding="utf-8")
        load(temporary, further=further)


def _forget_nodes(content: dict) -> None:
    """Remove all entries, and what names runs. Sections and lists stay, because dvc.yaml reads
    them."""
    content |= {section: {} for section in NODES}
    if isinstance(content.get("report"), dict):
        content["report"].pop("sweeps", None)
        content["report"] |= {"audits": [], "cleaning": {}, "localized": []}


def _merge(into: dict, values: dict) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = plain(value)


def edited(text: str, content: dict) -> str:
    """``text``, a mapping in YAML, with the values of ``content``.

    Raises ValueError where an anchor, a tag or braces around the document stand in the way.
    """
    try:
        result = "".join(_sections(text.removesuffix("\n") + "\n", content))
        if repr(parse_yaml(result)) == repr(content):
            return result
    except (YAMLError, KeyError, ValueError, AttributeError):
        pass
    raise ValueError("an anchor, a tag or braces stand in the way of the new value; write it by hand")


def _sections(text: str, content: dict) -> Iterator[str]:
    """The text of each section; comments below a section belong to the next one."""
    old: Any = parse_yaml(text)
    head, *sections = _SECTION.split(text) if old else [text]
    yield head
    for (key, value), section in zip(old.items() if old else (), sections, strict=True):
        below = _COMMENTS.search(section)
        assert below is not None
        lines = section[: below.start()]
        if repr(content.get(key, ...)) == repr(value):
            yield lines
        elif key in content:
            yaml = _writer()
            document = yaml.load(lines)
            _assign(document, key, content[key])
            yield _dumped(yaml, document)
        yield below[0]
    if added := {key: content[key] for key in content if key not in (old or {})}:
        yield _dumped(_writer(), added)


def _assign(parent: Any, key: object, new: Any) -> None:
    """Sets an entry; of mappings alike in keys and order only what differs."""
    old = parent.get(key)
    common = [name for name in old if name in new] if isinstance(old, dict) and isinstance(new, dict) else []
    if not common or list(new)[: len(common)] != common:
        parent[key] = new
        return
    for name in old.keys() - new.keys():
        del old[name]
    for name, value in new.items():
        if repr(plain(old.get(name, ...))) != repr(value):
            _assign(old, name, value)


def _writer() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, _WIDTH
    return yaml


def _dumped(yaml: YAML, value: object) -> str:
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()
