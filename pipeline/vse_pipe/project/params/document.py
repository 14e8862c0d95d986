"""YAML documents: read without pydantic, changed by KEY=VALUE, looked up by address.

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
        content = parse_yaml(path.read_text(encoding="utf-8"))
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
            section[last] = parse_yaml(value)
        except ValueError as error:
            raise UsageError(f"--set {text!r}: not valid YAML: {error}") from error
    return content


def parse_yaml(text: str) -> object:
    """The value of YAML text. Raises ValueError with one line."""
    if _plain(text):
        with contextlib.suppress(YAMLError, ValueError, TypeError):
            content = YAML(typ="safe").load(text)
            if _fits(content, _DEEPEST):
                return content
    yaml = YAML(typ="safe", pure=True)  # the parser in C is five times as quick and says less of what is wrong
    yaml.Composer = _Shallow
    try:
        return yaml.load(text)
    except RecursionError as error:  # of the scanner
        raise ValueError("nested too deeply") from error
    except (YAMLError, ValueError, TypeError) as error:  # of a date that no calendar has, of a key like [[1]]
        raise ValueError(" ".join(str(error).split())) from error


def _plain(text: str) -> bool:
    """Whether the parser in C is safe: deep values exhaust its stack, aliases could make a small value endless, and it
    differs in directives, tags and Unicode's line breaks."""
    deep = text.count("[") + text.count("{") > _FRAMES or max(map(len, text.split("\n"))) > _FRAMES
    return not deep and not _OTHERWISE.search(text)


def _fits(value: object, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_fits(one, levels - 1) for one in inside)


class _Shallow(Composer):
    """Ends at the first value that is too deep: thousands of brackets would take seconds and as many frames."""

    levels = 0  # ``depth`` is its own

    def compose_node(self, parent: Node | None, index: object) -> Node:
        self.levels += 1
        if self.levels > _DEEPEST:
            raise ValueError(f"nested too deeply, more than {_DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


def _keys(content: object, address: str) -> list[str]:
    """The keys of an address. A run's name may contain dots, so the longest existing key is taken."""
    parts, keys = address.split("."), []
    while parts:
        mapping = content if isinstance(content, dict) else {}
        size = next((size for size in range(len(parts), 1, -1) if ".".join(parts[:size]) in mapping), 1)
        keys.append(".".join(parts[:size]))
        content, parts = mapping.get(keys[-1]), parts[size:]
    return keys


def lookup(content: dict, address: str) -> tuple[object] | None:
    """(value,) at a dotted address, None where there is none: the value itself may be None."""
    value: object = content
    for part in _keys(content, address.strip()):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return (value,)
