"""What is wrong with a value, in words: pydantic's problems as people read them."""

import difflib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from pydantic import BaseModel

from vse_pipe.project.params.measuring import EvaluateParams
from vse_pipe.project.params.schema import Root, RunNode
from vse_pipe.project.params.training import TrainParams

# What files of an earlier version lack, and what they still have.
_ADDED: dict[tuple[type[BaseModel] | None, str], str] = {
    (Root, "texts"): "add `texts: {words: {dataset: NAME, method: words}}`, and `texts: words` to its runs",
    (RunNode, "texts"): "add `texts: NAME`, a node of the section texts",
    (RunNode, "scheme"): "add `scheme: plain`",
}
_RETIRED: dict[tuple[type[BaseModel], str], str] = {
    (TrainParams, "min_count"): "moved to texts.<name>.min_count",
    (TrainParams, "max_words"): "moved to texts.<name>.max_words",
    (EvaluateParams, "approximate"): "removed: every item is ranked",
    (Root, "search"): "removed: every item is scored; `vse-pipe export --to faiss` makes an index",
}


def described(model: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """One of ``ValidationError.errors()`` of ``model`` as a phrase; an unknown key gets its near miss."""
    if problem["type"] in ("extra_forbidden", "missing"):
        *parents, last = problem["loc"]
        holder = _model_at(model, parents)
    if problem["type"] == "extra_forbidden":
        if holder and (holder, last) in _RETIRED:
            return _RETIRED[holder, last]
        fields = list(holder.model_fields) if holder else []
        close = difflib.get_close_matches(str(last), fields, n=1)
        return "unknown key" + (f"; did you mean '{close[0]}'?" if close else "")
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if problem["type"] == "missing":
        return "; ".join([message, *([_ADDED[holder, last]] if (holder, last) in _ADDED else [])])
    given = problem["input"]
    return message if isinstance(given, str) and repr(given) in message else f"{message}, got {given!r}"


def _model_at(model: object, place: Iterable) -> type[BaseModel] | None:
    """The model at ``place`` inside ``model``."""
    for step in place:
        model = model.model_fields[step].annotation if _is_model(model) else typing.get_args(model)[-1]
    return model if _is_model(model) else None


def _is_model(model: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(model, type) and issubclass(model, BaseModel)
