"""New values in the text of a YAML document. Lines of other values, and comments, stay as they are.

ruamel's own round trip breaks long lines, unfolds lists, and drops the comments below what is removed. So its parser only
says where each value stands, and the new value is written there.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from types import SimpleNamespace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

from vse_pipe.project.params.document import parse_yaml

_QUOTED = {"'": SingleQuotedScalarString, '"': DoubleQuotedScalarString}
_WIDTH, _ENDLESS = 80, 10**6  # DVC breaks lines at the first

Edit = tuple[int, int, str]  # start and end in the text, and what stands there instead


def edited(text: str, content: dict) -> str:
    """``text``, a mapping in YAML, with the values of ``content``.

    Raises ValueError where a changed value has an anchor that others repeat.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text if text.endswith("\n") else text + line_end
    parser = YAML(typ="safe", pure=True)
    parser.Composer = _Placed
    old, result, place = parse_yaml(text), "", 0
    for start, end, new in _changes(text, parser.compose(text), old, content):
        result += text[place:start] + new.replace("\n", line_end)
        place = end
    result += text[place:]
    with contextlib.suppress(ValueError):
        if repr(parse_yaml(result)) == repr(content):
            return result
    raise ValueError("an anchor or a tag stands in the way of the new value; write it by hand")


class _Placed(Composer):
    """An alias has its own place, not that of its anchor; an empty value the place behind the colon of its key."""

    def compose_node(self, parent: Node | None, index: object) -> Node:
        event = self.parser.peek_event()
        node = super().compose_node(parent, index)
        if isinstance(event, AliasEvent):
            return ScalarNode(node.tag, "", event.start_mark, event.end_mark)
        if isinstance(index, Node) and isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index:
            mark = index.end_mark
            colon = SimpleNamespace(index=mark.buffer.index(":", mark.index) + 1)
            return ScalarNode(node.tag, "", colon, colon)
        return node


def _changes(text: str, node: Any, old: Any, new: Any) -> Iterator[Edit]:
    if repr(old) == repr(new):
        return
    if not _keeps_keys(node, old, new):
        start = node.start_mark.index
        space = " " if text[start - 1 : start] == ":" else ""  # it was empty
        yield from _written(text, start, node, f"{space}{_in_braces(new, node)}")
    elif node.flow_style:
        yield from _changes_in_braces(text, node, old, new)
    else:
        yield from _changes_by_line(text, node, old, new)


def _keeps_keys(node: Any, old: Any, new: Any) -> bool:
    """Whether ``new`` has keys of ``old`` in their order, in braces all of them, and then its own."""
    if not (isinstance(node, MappingNode) and isinstance(new, dict) and old and new):
        return False
    kept = [key for key in old if key in new]
    if [key.value for key, _ in node.value] != list(map(str, old)) or list(new)[: len(kept)] != kept:
        return False
    return len(kept) == len(old) or not node.flow_style


def _changes_in_braces(text: str, node: MappingNode, old: dict, new: dict) -> Iterator[Edit]:
    for (_, value), (key, before) in zip(node.value, old.items(), strict=True):
        yield from _changes(text, value, before, new[key])
    if added := {key: new[key] for key in new if key not in old}:
        place = _end(text, node.value[-1][1])
        yield place, place, f", {_in_braces(added)[1:-1]}"


def _changes_by_line(text: str, node: MappingNode, old: dict, new: dict) -> Iterator[Edit]:
    indent = node.value[0][0].start_mark.column
    end = 0
    for (key_node, value), (key, before) in zip(node.value, old.items(), strict=True):
        end = _line_end(text, _end(text, value))
        if key not in new:
            yield _start_with_comments(text, key_node.start_mark.index), end, ""
        elif _keeps_keys(value, before, new[key]):
            yield from _changes(text, value, before, new[key])
        elif _is_block(value) and isinstance(before, list) and isinstance(new[key], list) and new[key]:
            yield from _changed_items(text, value, before, new[key])
        elif repr(before) != repr(new[key]):
            yield from _changed_entry(text, key_node, value, key, new[key])
    yield end, end, "".join(_by_line({key: new[key]}, indent) for key in new if key not in old)


def _changed_entry(text: str, key_node: Node, value: Any, key: object, new: object) -> Iterator[Edit]:
    """Edits of ``key: value`` with a value of another kind, or of one line."""
    colon = text.index(":", key_node.end_mark.index) + 1
    end = _end(text, value)
    in_line = not _is_block(value)
    if not (isinstance(new, dict | list) and new) or (isinstance(value, CollectionNode) and in_line and value.value):
        lines, head = "", "" if new is None else f" {_in_braces(new, value)}"
    else:
        lines, head = _by_line({key: new}, key_node.start_mark.column).partition("\n")[2], ""
    if in_line:
        yield from _written(text, colon, value, head)
        yield _line_end(text, end), _line_end(text, end), lines
    else:
        yield colon, colon, head
        yield _line_end(text, colon), _line_end(text, end), lines


def _changed_items(text: str, node: SequenceNode, old: list, new: list) -> Iterator[Edit]:
    """Edits of a list with an item a line. Equal items stay."""
    dashes = [text.rindex("-", 0, item.start_mark.index) for item in node.value]
    ends = [_line_end(text, _end(text, item)) for item in node.value]
    indent = dashes[0] - _line_start(text, dashes[0])
    matcher = SequenceMatcher(None, list(map(repr, old)), list(map(repr, new)), autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if (
            kind == "replace"
            and last - first == new_last - new_first
            and not any(map(_is_block, node.value[first:last]))
        ):
            for item, value in zip(node.value[first:last], new[new_first:new_last], strict=True):
                yield from _written(text, item.start_mark.index, item, _in_braces(value, item))
        elif kind != "equal":
            before = ends[first - 1] if first else _line_start(text, dashes[0])
            start, end = (
                (_start_with_comments(text, dashes[first]), ends[last - 1]) if last > first else (before, before)
            )
            yield start, end, _by_line(new[new_first:new_last], indent) if new_last > new_first else ""


def _written(text: str, start: int, node: Node, new: str) -> Iterator[Edit]:
    """The edit that puts ``new`` between ``start`` and the end of ``node``. A comment behind it keeps its column."""
    end = _end(text, node)
    comment = re.compile(" *(?=#)").match(text, end)
    if comment is None or "\n" in text[start:end]:
        yield start, end, new
    else:
        yield start, comment.end(), new + " " * max(1, comment.end() - start - len(new))


def _is_block(node: Node) -> bool:
    return isinstance(node, CollectionNode) and not node.flow_style


def _end(text: str, node: Node) -> int:
    if _is_block(node):
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return node.start_mark.index + len(text[node.start_mark.index : node.end_mark.index].rstrip())


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    return text.index("\n", place) + 1


def _start_with_comments(text: str, place: int) -> int:
    """The start of the line of ``place``, or of the comment lines above it that begin in its column."""
    start = _line_start(text, place)
    comment = re.compile(f"{' ' * (place - start)}#")
    while start and comment.match(text, above := _line_start(text, start - 1)):
        start = above
    return start


def _in_braces(value: object, before: Node | None = None) -> str:
    """In one line; text in the quotes of ``before``."""
    if isinstance(value, dict | list):
        return _dumped(value, _ENDLESS, flow=True).strip()
    if isinstance(value, str):
        style = '"' if "\n" in value else getattr(before, "style", None)
        value = _QUOTED[style](value) if style in _QUOTED else value
    return "null" if value is None else _dumped([value], _ENDLESS, flow=True).strip()[1:-1]


def _by_line(value: dict | list, indent: int) -> str:
    """With a line for each entry or item, all indented."""
    return re.sub("^(?=.)", " " * indent, _dumped(value, _WIDTH - indent, flow=False), flags=re.MULTILINE)


def _dumped(value: dict | list, width: int, flow: bool) -> str:
    writer, stream = YAML(), io.StringIO()
    writer.default_flow_style, writer.width = flow, width
    writer.dump(value, stream)
    return stream.getvalue()
