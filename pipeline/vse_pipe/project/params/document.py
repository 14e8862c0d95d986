"""YAML documents: read without pydantic, changed by KEY=VALUE, looked up by address.

ruamel.yaml, not PyYAML: DVC writes ``lr: 1e-05``, which YAML 1.1 reads as a string.
"""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from vse_pipe.core.errors import ParamsError, UsageError


def read_document(path: Path) -> dict:
    """The mapping in a YAML file, unchecked. Raises ParamsError when there is none."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ParamsError(f"{path.name}: not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ParamsError(f"{path.name}: expected a mapping of sections, got {type(content).__name__}")
    return content


def with_overrides(content: dict, overrides: list[str], name: str) -> dict:
    """Set ``KEY=VALUE`` pairs, values read as YAML. Raises UsageError for a malformed one."""
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
    try:
        return YAML(typ="safe").load(text)
    except (YAMLError, ValueError, TypeError, RecursionError) as error:  # a date like 2020-13-01, a key like [[1]]
        raise ValueError(" ".join(str(error).split())) from error


def plain(value: Any) -> Any:
    """A copy of a document in which no two places share a mapping or a list."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def _keys(content: object, address: str) -> list[str]:
    """The keys of an address: the longest existing ones, for names may have dots."""
    parts, keys = address.split("."), []
    while parts:
        mapping = content if isinstance(content, dict) else {}
        size = next((size for size in range(len(parts), 1, -1) if ".".join(parts[:size]) in mapping), 1)
        keys.append(".".join(parts[:size]))
        content, parts = mapping.get(keys[-1]), parts[size:]
    return keys
