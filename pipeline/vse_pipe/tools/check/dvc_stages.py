"""dvc.yaml, resolved: one Stage for every entry of params.yaml, without DVC.

Reads the part of the language that this project's dvc.yaml uses: ``foreach`` over a section of params.yaml, ``${...}`` with
``key``, ``item``, ``vars`` and values of params.yaml. tests/rules compares the result with DVC's own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import ParamsError
from vse_pipe.project.params.document import lookup, read_document

DVC_YAML = Path("dvc.yaml")
_HOLE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True)
class Stage:
    """group: its key in dvc.yaml; name: with the entry, ``train@hal``; params: addresses in params.yaml."""

    group: str
    name: str
    cmd: str
    deps: tuple[str, ...]
    params: tuple[str, ...]
    outs: tuple[str, ...]


def read(path: Path, params: dict) -> tuple[list[Stage], list[str]]:
    """Every stage of dvc.yaml for these parameters, and what is wrong, a line each that begins with the stage.

    params: params.yaml as it stands in the file. Raises ParamsError where ``path`` is no mapping of stages.
    """
    content = read_document(path)
    groups = content.get("stages")
    if not isinstance(groups, dict):
        raise ParamsError([f"{path.name}: has no section stages"])
    scope = dict(params)
    for one in content.get("vars") or []:
        scope |= one if isinstance(one, dict) else {}
    stages: list[Stage] = []
    problems: list[str] = []
    for group, node in groups.items():
        try:
            stages += _stages(group, node, scope)
        except _Wrong as error:
            problems.append(f"{group}: {error}")
    return stages, problems


class _Wrong(Exception):
    pass


def _stages(group: str, node: object, scope: dict) -> Iterator[Stage]:
    if not isinstance(node, dict):
        raise _Wrong("expected a mapping")
    if "foreach" not in node:
        yield _stage(group, group, node, scope)
        return
    over = node["foreach"]
    items = _value(over[2:-1], scope) if isinstance(over, str) and _HOLE.fullmatch(over) else over
    if not isinstance(items, dict | list) or not isinstance(node.get("do"), dict):
        raise _Wrong(f"foreach {over!r}: expected a section of params.yaml, and `do` beside it")
    pairs = items.items() if isinstance(items, dict) else ((str(item), item) for item in items)
    for key, item in pairs:
        yield _stage(group, f"{group}@{key}", node["do"], {**scope, "key": key, "item": item})


def _stage(group: str, name: str, node: dict, scope: dict) -> Stage:
    def filled(entries: list | None) -> tuple[str, ...]:
        found = [next(iter(one)) if isinstance(one, dict) else one for one in entries or []]
        return tuple(_filled(str(one), scope, name) for one in found)

    outs = filled([*(node.get("outs") or []), *(node.get("metrics") or [])])
    return Stage(
        group,
        name,
        _filled(str(node.get("cmd", "")), scope, name),
        filled(node.get("deps")),
        filled(node.get("params")),
        outs,
    )


def _filled(text: str, scope: dict, name: str) -> str:
    def value(match: re.Match) -> str:
        found = _value(match[1], scope)
        if isinstance(found, dict | list):
            raise _Wrong(f"{name}: {match[0]} is no single value")
        return str(found)

    return _HOLE.sub(value, text)


def _value(address: str, scope: dict) -> object:
    found = lookup(scope, address)
    if found is None:
        raise _Wrong(f"${{{address}}}: params.yaml has no such value")
    return found[0]
