"""New values in the text of a YAML document. Lines of other values, and comments, stay as they are.

ruamel's round trip writes each changed entry, with the width of DVC. Of a whole document it would lose the comments
below a removed entry, such as the heading of the next section.
"""

import io
from collections.abc import Iterator
from difflib import SequenceMatcher
from textwrap import indent
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from vse_pipe.project.params.document import parse_yaml

_WIDTH = 80


def edited(text: str, content: dict) -> str:
    """``text``, a mapping in YAML, with the values of ``content``.

    Raises ValueError where an anchor, a tag or braces around the document stand in the way.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = [f"{line}\n" for line in text.removesuffix("\n").replace("\r", "").split("\n")]
    try:
        node = YAML().load("".join(lines))
        result = "".join(_block(lines, 0, len(lines), node, parse_yaml(text), content))
        if repr(parse_yaml(result)) == repr(content):
            return result.replace("\n", line_end)
    except (YAMLError, KeyError, ValueError):
        pass
    raise ValueError("an anchor, a tag or braces stand in the way of the new value; write it by hand")


def _block(lines: list[str], start: int, end: int, node: CommentedMap, old: Any, new: dict) -> Iterator[str]:
    """The lines from ``start`` to ``end`` of a mapping in block style. Comments directly above an entry are its own."""
    line_of = {key: node.lc.key(key)[0] for key in old}
    column = node.lc.key(next(iter(old)))[1] if old else 0
    starts = [_with_comments(lines, line, column) for line in line_of.values()] + [end]
    yield from lines[start : starts[0]]
    for key, first, following in zip(old, starts, starts[1:], strict=False):
        at, last = line_of[key], following
        while lines[last - 1].lstrip()[:1] in ("", "#"):
            last -= 1
        if repr(old[key]) == repr(new.get(key, ...)):
            yield from lines[first:last]
        elif key in new:
            yield from lines[first:at]
            if _is_block(node[key]) and _keeps_order(old[key], new[key]):
                yield lines[at]
                yield from _block(lines, at + 1, last, node[key], old[key], new[key])
            else:
                yield _entry(lines[at:last], column, key, old[key], new[key])
        yield from lines[last:following]
    if added := {key: new[key] for key in new if key not in old}:
        yield _dumped(_writer(column), added, column)


def _is_block(node: object) -> bool:
    return isinstance(node, CommentedMap) and not node.fa.flow_style()


def _keeps_order(old: Any, new: Any) -> bool:
    """Whether both are mappings, and ``new`` has keys of ``old`` in their order before its own."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    common = [key for key in old if key in new]
    return bool(common) and list(new)[: len(common)] == common


def _with_comments(lines: list[str], line: int, column: int) -> int:
    while line and lines[line - 1].startswith(f"{' ' * column}#"):
        line -= 1
    return line


def _entry(lines: list[str], column: int, key: object, old: object, new: object) -> str:
    """The lines of an entry with another value."""
    yaml = _writer(column)
    document = yaml.load("".join(line.removeprefix(" " * column) for line in lines))
    _put(document, key, old, new)
    return _dumped(yaml, document, column)


def _put(parent: Any, key: object, old: Any, new: Any) -> None:
    node = parent.get(key)
    if _keeps_order(old, new):
        for gone in old.keys() - new.keys():
            del node[gone]
        for name in new:
            _put(node, name, old.get(name, ...), new[name])
    elif isinstance(node, CommentedSeq) and isinstance(new, list) and isinstance(old, list):
        changes = SequenceMatcher(None, list(map(repr, old)), list(map(repr, new)), autojunk=False)
        for kind, first, last, new_first, new_last in reversed(changes.get_opcodes()):
            if kind != "equal":
                del node[first:last]
                for value in reversed(new[new_first:new_last]):
                    node.insert(first, value)
    elif repr(old) != repr(new):
        parent[key] = new


def _writer(column: int) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, _WIDTH - column
    return yaml


def _dumped(yaml: YAML, value: object, column: int) -> str:
    stream = io.StringIO()
    yaml.dump(value, stream)
    return indent(stream.getvalue(), " " * column)
