"""A pydantic field in words: its type with its bounds, and its default."""

import types
import typing

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.docs.reference.markdown import code

_NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false", dict: "mapping", object: "value"}
_SHOWN = 12
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def describe(field: FieldInfo) -> str:
    """``whole number ≥ 1``, ``one of `a`, `b` ``, ``list of text, at least 1``, ``number > 0, or null``."""
    return _described(field.annotation, field.metadata)


def default(field: FieldInfo) -> str:
    """The default of a field that has one, as YAML."""
    return _yaml(field.get_default(call_default_factory=True))


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
        return f"list of {_described(arguments[0])}{_bounds(metadata)}"
    if origin is dict or _is_model(kind):
        return "mapping"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind))) + _bounds(metadata)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _bounds(metadata: typing.Sequence) -> str:
    limits = [
        f"{sign} {_number(getattr(one, name))}"
        for name, sign in _BOUNDS.items()
        for one in metadata
        if getattr(one, name, None) is not None
    ]
    lengths = [f", at least {one.min_length}" for one in metadata if getattr(one, "min_length", None)]
    lengths += [f", at most {one.max_length}" for one in metadata if getattr(one, "max_length", None)]
    patterns = [one.pattern for one in metadata if getattr(one, "pattern", None)]
    said = (" " + " and ".join(limits)) if limits else ""
    return said + "".join(lengths) + "".join(f" like `{pattern}`" for pattern in patterns)


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
