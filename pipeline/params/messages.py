"""What is wrong with a value, in words: pydantic's problems as people read them."""

import difflib
import typing

from pydantic import BaseModel


def described(model: type[BaseModel], problem: dict) -> str:
    """One of ``ValidationError.errors()`` of ``model`` as a phrase; an unknown key gets its near miss."""
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(problem["loc"][-1]), _fields(model, problem["loc"][:-1]), n=1)
        return "unknown key" + (f"; did you mean '{close[0]}'?" if close else "")
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return message if problem["type"] == "missing" else f"{message}, got {problem['input']!r}"


def _fields(model: object, place: tuple) -> list[str]:
    """Names of the fields of the model at ``place`` inside ``model``: what an unknown key may have meant."""
    for step in place:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[step].annotation
        else:
            model = typing.get_args(model)[-1]
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []
