"""YAML files and single values of it, read and not yet checked.

ruamel.yaml, not PyYAML: DVC writes ``lr: 1e-05``, which YAML 1.1 reads as a string.
"""

from pathlib import Path

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.composer import Composer
from ruamel.yaml.nodes import Node

from pipeline.core.errors import ParamsError, UsageError

_DEEPEST = 100


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
    yaml = YAML(typ="safe", pure=True)  # the parser in C says less of what is wrong
    yaml.Composer = _Shallow
    try:
        return yaml.load(text)
    except RecursionError as error:  # of the scanner
        raise ValueError("nested too deeply") from error
    except (YAMLError, ValueError) as error:  # ValueError: a date that no calendar has
        raise ValueError(" ".join(str(error).split())) from error


class _Shallow(Composer):
    """Ends at the first value that lies too deep: thousands of brackets would take seconds, and then as many frames."""

    depth = 0

    def compose_node(self, parent: Node | None, index: object) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"nested too deeply, more than {_DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
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
