"""YAML files and single values of it, read and not yet checked.

ruamel.yaml, not PyYAML: DVC writes ``lr: 1e-05``, which YAML 1.1 reads as a string.
"""

import contextlib
import re
from pathlib import Path

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.composer import Composer
from ruamel.yaml.nodes import Node

from vse_pipe.core.errors import ParamsError, UsageError

_DEEPEST = 100
_FRAMES = 1000
_OTHERWISE = re.compile(r"^%|(^|[\s\[{,:-])&|[|>]#|[!\t\r\x85\u2028\u2029\ufeff]", re.MULTILINE)


def read_document(path: Path) -> dict:
    """The mapping in a YAML file, unchecked. Raises ParamsError when there is none."""
    try:
        content = parsed(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ParamsError([f"{path.name}: not UTF-8 text ({error.reason} at byte {error.start})"]) from error
    except ValueError as error:
        raise ParamsError([f"{path.name}: not valid YAML: {error}"]) from error
    if not isinstance(content, dict):
        raise ParamsError([f"{path.name}: expected a mapping of sections, got {type(content).__name__}"])
    return content


def with_overrides(content: dict, overrides: list[str], name: str) -> dict:
    """Set ``KEY=VALUE`` pairs in ``content``, values read as YAML. Raises UsageError on a malformed one."""
    for text in overrides:
        address, separator, value = text.partition("=")
        if not separator or not address:
            raise UsageError(f"--set {text!r}: expected KEY=VALUE, for example train.lr=1e-4")
        *parents, last = _keys(content, address)
        section = content
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise UsageError(f"--set {text!r}: {name} has no section {'.'.join(parents)}")
        try:
            section[last] = parsed(value)
        except ValueError as error:
            raise UsageError(f"--set {text!r}: not valid YAML: {error}") from error
    return content


def parsed(text: str) -> object:
    """What YAML text holds. Raises ValueError with one line that says why it holds nothing."""
    if _plain(text):
        with contextlib.suppress(YAMLError, ValueError, TypeError):
            found = YAML(typ="safe").load(text)
            if _fits(found, _DEEPEST):
                return found
    yaml = YAML(typ="safe", pure=True)  # the parser in C is five times as quick and says less of what is wrong
    yaml.Composer = _Shallow
    try:
        return yaml.load(text)
    except RecursionError as error:  # of the scanner
        raise ValueError("nested too deeply") from error
    except (YAMLError, ValueError, TypeError) as error:  # of a date that no calendar has, of a key like [[1]]
        raise ValueError(" ".join(str(error).split())) from error


def _plain(text: str) -> bool:
    """That the parser in C may have it: it follows what lies deep until its stack is full, aliases could make a small value
    endless, and directives, tags and Unicode's breaks of lines are not the same to it."""
    deep = text.count("[") + text.count("{") > _FRAMES or max(map(len, text.split("\n"))) > _FRAMES
    return not deep and not _OTHERWISE.search(text)


def _fits(value: object, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_fits(one, levels - 1) for one in inside)


class _Shallow(Composer):
    """Ends at the first value that lies too deep: thousands of brackets would take seconds, and then as many frames."""

    levels = 0  # ``depth`` is its own

    def compose_node(self, parent: Node | None, index: object) -> Node:
        self.levels += 1
        if self.levels > _DEEPEST:
            raise ValueError(f"nested too deeply, more than {_DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


def _keys(content: object, address: str) -> list[str]:
    """An address by its keys: the name of a run may hold dots, so the longest that is there is one."""
    parts, found = address.split("."), []
    while parts:
        there = content if isinstance(content, dict) else {}
        size = next((size for size in range(len(parts), 1, -1) if ".".join(parts[:size]) in there), 1)
        found.append(".".join(parts[:size]))
        content, parts = there.get(found[-1]), parts[size:]
    return found


def lookup(content: dict, address: str) -> tuple[object] | None:
    """(value,) at a dotted address, None where there is none: the value itself may be None."""
    found: object = content
    for part in _keys(content, address.strip()):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return (found,)
