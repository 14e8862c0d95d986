"""What parameter models cannot check by themselves: numbers too large to compute with."""

import difflib
import math
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError

from vse_pipe.core.errors import UnknownMember, unknown
from vse_pipe.project.params.schema import EvaluateParams, Root, RunNode, TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import Family

# Counts become lengths of arrays, and products of two of them must stay below 2^63.
MOST = 2**31 - 1


def values_out_of_range(values: dict, address: str = "") -> Iterator[tuple[str, str]]:
    """(address, what is wrong) of every number in ``values`` that is not finite or above ``MOST``; a seed has its own bound."""
    for key, value in values.items():
        place = f"{address}.{key}" if address else str(key)
        for at, one in enumerate(value) if isinstance(value, list | tuple) else [(None, value)]:
            if isinstance(one, dict):
                yield from values_out_of_range(one, place if at is None else f"{place}.{at}")
            elif isinstance(one, float) and not math.isfinite(one):
                yield place, f"input should be a finite number, got {one!r}"
            elif isinstance(one, int) and abs(one) > MOST and key != "seeds" and place != "seed":
                yield place, f"input should be at most {MOST}, got {one!r}"


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


class ParamsReader:
    """file: its name in messages. Whatever is wrong goes to ``problems``; what cannot be read is None.

    Nothing that holds such a None is used: loading ends with the problems raised. So the results are typed as read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def problem(self, address: str, text: str) -> None:
        """Once, however many runs read what stands there."""
        if (line := f"{self.file} {address}: {text}") not in self.problems:
            self.problems.append(line)

    def model(
        self, model: type[BaseModel], values: dict, address: str, elsewhere: Mapping[str, str] | None = None
    ) -> Any:
        """``values`` as a ``model``; address: where they stand, empty for the whole file; elsewhere: by key, where others do."""

        def place_of(*keys: str) -> str:
            return ".".join(
                part for part in [(elsewhere or {}).get(keys[0], address) if keys else address, *keys] if part
            )

        try:
            checked = model.model_validate(values)
            beyond = list(values_out_of_range(checked.model_dump()))
            for place, text in beyond:
                self.problem(place_of(*place.split(".")), text)
            return None if beyond else checked
        except ValidationError as error:
            for problem in error.errors():
                self.problem(place_of(*map(str, problem["loc"])), described(model, problem))
            return None

    def member(
        self,
        family: Family,
        name: str,
        options: dict | None,
        address: str,
        named_at: str,
        elsewhere: Mapping[str, str] | None = None,
    ) -> Any:
        """A ``Member`` with its options. address, elsewhere: where these stand, as of ``model``; named_at: where its name does."""
        if not self.known(family, name, named_at):
            return None
        params = self.model(family.options(name), dict(options or {}), address, elsewhere)
        return None if params is None else Member(name, params)

    def known(self, family: Family, name: str, address: str) -> bool:
        try:
            family.check(name)
        except UnknownMember as error:
            self.problem(address, str(error))
            return False
        return True

    def reference(self, name: str, nodes: Collection[str], kind: str, address: str) -> bool:
        """Whether ``name`` is one of ``nodes``."""
        if name not in nodes:
            self.problem(address, unknown(kind, name, sorted(nodes)))
        return name in nodes
