"""New values in a YAML text. Other sections and all comments stay."""

import io
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML, YAMLError

from vse_pipe.project.params.document import parse_yaml, plain

# The width of DVC, which writes params.yaml too.
_WIDTH = 80
_SECTION = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
_COMMENTS = re.compile(r"(?:^[ \t]*(?:#.*)?\n)*\Z", re.MULTILINE)


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
