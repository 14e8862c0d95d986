"""What each key of a parameter model means: the description of its field, or the docstrings of the model and its bases.

A docstring says it as ``key: meaning; other, third: meaning of both. key4: ...``; what stands before the first key, or
after ``Defaults:``, is about the whole model.
"""

import re

from pydantic import BaseModel

from pipeline.core.strict import Strict
from tests.docs.reference.markdown import text


def of_keys(model: type[BaseModel]) -> dict[str, str]:
    """The meaning of each key that is explained; that of the model itself wins over that of its bases, and in one model
    the field's description over the docstring."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base not in (BaseModel, Strict):
            found |= _parts(base)[1] | _described(base)
    return found


def of_model(model: type[BaseModel]) -> str:
    """What the docstring says before it comes to the keys, and after ``Defaults:``."""
    return _parts(model)[0]


def _described(model: type[BaseModel]) -> dict[str, str]:
    fields = model.model_fields.items()
    return {name: text(field.description).rstrip(".") for name, field in fields if field.description}


def _parts(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    line = text(model.__doc__ or "")
    name = "(?:" + "|".join(sorted(model.model_fields, key=len, reverse=True) or ["(?!)"]) + ")"
    keys = rf"(?:{name}(?:, {name})*(?:,? and {name})?|Defaults)"
    # A key begins the text or follows a semicolon, a full stop or a colon ("embed: splits: ...").
    starts = list(re.finditer(rf"(?:^|(?<=[.;:)] ))({keys}): ", line))
    about, found = line[: starts[0].start()] if starts else line, {}
    ends = [*(start.start() for start in starts[1:]), len(line)]
    for start, end in zip(starts, ends, strict=False):
        said = line[start.end() : end].strip().rstrip(";.")
        if start.group(1) == "Defaults":
            about = f"{about.rstrip()} Defaults: {said}."
        else:
            found |= dict.fromkeys(re.findall(name, start.group(1)), said)
    return about.strip(), found
