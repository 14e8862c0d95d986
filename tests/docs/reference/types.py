"""A pydantic field in words: its type with its bounds, and its default."""

import types
import typing

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.docs.reference.markdown import code

_NAMES = {int: "integer", float: "number", str: "text", bool: "boolean", dict: "mapping", object: "text or number"}
_SHOWN = 12
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_LENGTHS = ("min_length", "max_length")
_BRACKETS = {"≥": "[", ">": "(", "≤": "]", "<": ")"}
_DIGEST = "^[0-9a-f]{64}$"


def describe(field: FieldInfo) -> str:
    """``integer ≥ 1``, ``number in [0, 1)``, ``one of `a`, `b` ``, ``list of text``, ``number > 0, or null``."""
    return _described(field.annotation, field.metadata)


def default(field: FieldInfo) -> str:
    """The default of a field that has one, as YAML."""
    return _yaml(_default(field))


def beside_default(field: FieldInfo) -> str:
    """What the default does not show of the type: ``> 0``, ``in [0, 1)``, ``or `b` ``; nothing for many fields."""
    kind, value = describe(field), _default(field)
    if value is None:
        return kind.removesuffix(", or null")
    if kind.startswith("one of "):
        shown = code(str(value))
        rest = kind.removeprefix("one of ").replace(f"{shown}, ", "", 1).replace(f", {shown}", "", 1)
        return "" if rest == shown else f"or {rest.removeprefix('or ')}"
    return kind.removeprefix(_NAMES.get(type(value), "mapping")).strip(" ,")


def _default(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True)


def _described(kind: object, metadata: typing.Sequence = ()) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        nested = [part for extra in arguments[1:] for part in getattr(extra, "metadata", [extra])]
        return _described(arguments[0], [*nested, *metadata])
    if origin in (typing.Union, types.UnionType):
        parts = [_described(part) for part in arguments if part is not type(None)]
        parts += ["null"] * (len(parts) < len(arguments))
        return ", or ".join([parts[0] + _bounds(metadata), *parts[1:]])
    if origin is typing.Literal:
        return "one of " + ", ".join(code(value) for value in arguments)
    if origin is list:
        return f"list of {_described(arguments[0]).removeprefix('one of ')}{_bounds(metadata)}"
    if origin is dict or _is_model(kind):
        return "mapping"
    if any(getattr(one, "pattern", None) == _DIGEST for one in metadata):
        return "SHA-256"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind))) + _bounds(metadata)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _bounds(metadata: typing.Sequence) -> str:
    limits = [
        (sign, _number(getattr(one, name)))
        for name, sign in _BOUNDS.items()
        for one in metadata
        if getattr(one, name, None) is not None
    ]
    fewest, most = (max((getattr(one, end, None) or 1 for one in metadata), default=1) for end in _LENGTHS)
    patterns = [one.pattern for one in metadata if getattr(one, "pattern", None)]
    length = f", {fewest} of them" if most == fewest > 1 else f", at least {fewest}" if fewest > 1 else ""
    return _range(limits) + length + "".join(f" like `{pattern}`" for pattern in patterns)


def _range(limits: list[tuple[str, str]]) -> str:
    """`` > 0``, `` in [0, 1)``."""
    match limits:
        case [(low, least), (high, most)]:
            return f" in {_BRACKETS[low]}{least}, {most}{_BRACKETS[high]}"
    return "".join(f" {sign} {bound}" for sign, bound in limits)


def _number(value: float) -> str:
    return (
        f"2^{value.bit_length() - 1}"
        if isinstance(value, int) and value >= 2**16 and not value & (value - 1)
        else f"{value:g}"
    )


def _yaml(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        shown = value if len(value) <= _SHOWN else [*value[:2], "...", value[-1]]
        return "[" + ", ".join(_yaml(one) for one in shown) + "]"
    if isinstance(value, BaseModel):
        return "{}"  # its own defaults, which are told where it is at home
    if isinstance(value, float):
        return repr(value)
    return str(value) if value != "" else '""'
