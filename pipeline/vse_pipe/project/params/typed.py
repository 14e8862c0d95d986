"""params.yaml as typed objects, and the reader of its YAML and its values."""

import difflib
import math
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError

from vse_pipe.core.errors import UnknownMember, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project.engines.options import EngineParams
from vse_pipe.project.params import schema
from vse_pipe.project.registry import Family


@dataclass(frozen=True)
class Member:
    """A family's member by name. params: its validated options, whose class follows from the name."""

    name: str
    params: Any


@dataclass(frozen=True)
class Dataset:
    format: Member
    source: str
    on_error: str = "fail"
    memory: int = 4096
    decisions: str | None = None


@dataclass(frozen=True)
class FeatureSet:
    """max_errors: images that ``on_error: skip`` may omit beside those of ``prepare``; below 1 a share of all, rounded
    up."""

    dataset: str
    backbone: Member
    on_error: str = "fail"
    max_errors: float = 0.01


@dataclass(frozen=True)
class TextSet:
    dataset: str
    method: Member


@dataclass(frozen=True)
class Noise:
    """The pairs of a data set. seed: of the draw."""

    dataset: str
    protocol: Member
    seed: int = 1


@dataclass(frozen=True)
class GivenModel:
    """A packed model. folder: written by ``vse-pipe pack``; sha256: of its config.json."""

    folder: str
    sha256: str


@dataclass(frozen=True)
class Run:
    """One model. The members have the parameters of their sections, overridden by the run's ``options``.

    seed: of first weights, order of batches, dropout and crops. model: replaces the training, if not None.
    """

    dataset: str
    features: str
    texts: str
    noise: str
    loss: Member
    scheme: Member
    similarity: Member
    text: Member
    image: Member
    sampler: Member
    train: schema.TrainParams
    row: str | None = None
    seed: int = 1
    model: GivenModel | None = None


@dataclass(frozen=True)
class Params:
    """params.yaml, typed. inference: by criterion, without composite names.

    runs: by model, so that a run with seeds is ``max/1``, ``max/2``, ...; groups: these names for each run with seeds
    and each of its transfers. transfers: by model too, complete. noises: by draw, so that a noise with seeds is
    ``n60/1``, ``n60/2``, ...; draws: these names for each noise with seeds.
    """

    seed: int
    grid: schema.GridParams
    datasets: dict[str, Dataset]
    features: dict[str, FeatureSet]
    texts: dict[str, TextSet]
    noises: dict[str, Noise]
    runs: dict[str, Run]
    evaluate: schema.EvaluateParams
    inference: dict[str, Strict]
    report: schema.ReportParams
    embed: schema.EmbedParams = field(default_factory=schema.EmbedParams)
    localize: schema.LocalizeParams = field(default_factory=schema.LocalizeParams)
    engine: EngineParams = field(default_factory=EngineParams)
    ensembles: dict[str, schema.EnsembleNode] = field(default_factory=dict)
    transfers: dict[str, schema.TransferNode] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    teachers: dict[str, schema.TeacherNode] = field(default_factory=dict)
    draws: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def pairs(self, noise: str) -> Noise:
        """The noise behind a name under ``noises`` or ``teachers``."""
        while noise in self.teachers:
            noise = self.teachers[noise].noise
        return self.noises[noise]

    def evaluated(self) -> list[str]:
        """The names of all runs, ensembles and transfers, which are ranked and reported."""
        return [*self.runs, *self.ensembles, *self.transfers]

    def named(self, models: Iterable[str]) -> list[str]:
        """Their names in params.yaml, without repetition."""
        names = {model: name for name, group in self.groups.items() for model in group}
        return list(dict.fromkeys(names.get(model, model) for model in models))

    def trained(self, name: str) -> str:
        """The run that trained the model of a run or transfer."""
        return self.transfers[name].run if name in self.transfers else name

    def dataset(self, name: str) -> str:
        """The data set on which a run, an ensemble or a transfer is measured."""
        if name in self.transfers:
            return self.transfers[name].dataset
        return self.runs[self.ensembles[name].members[0] if name in self.ensembles else name].dataset

    def models(self, name: str) -> tuple[str, ...]:
        """The names under ``runs`` or ``ensembles`` for a name of params.yaml: itself, or its seeds."""
        return self.groups.get(name, (name,))

    def trainings(self, name: str) -> list[str]:
        """The runs whose models rank under a name: its seeds, the members of an ensemble, the run of a transfer."""
        nodes = [self.ensembles.get(model) for model in self.models(name)]
        members = [node.members if node else (name,) for node in nodes]
        return list(dict.fromkeys(self.trained(run) for side in members for one in side for run in self.models(one)))


# Counts become lengths of arrays, and a product of two must stay below 2^63.
MOST = 2**31 - 1


def values_out_of_range(values: dict, address: str = "") -> Iterator[tuple[str, str]]:
    """(address, problem) of every number in ``values`` that is not finite or above ``MOST``; seeds have another bound."""
    for key, value in values.items():
        place = f"{address}.{key}" if address else str(key)
        for at, element in enumerate(value) if isinstance(value, list | tuple) else [(None, value)]:
            if isinstance(element, dict):
                yield from values_out_of_range(element, place if at is None else f"{place}.{at}")
            elif isinstance(element, float) and not math.isfinite(element):
                yield place, f"input should be a finite number, got {element!r}"
            elif isinstance(element, int) and abs(element) > MOST and key != "seeds" and place != "seed":
                yield place, f"input should be at most {MOST}, got {element!r}"


# Keys that files of an earlier version lack, and keys that they still have.
_ADDED: dict[tuple[type[BaseModel] | None, str], str] = {
    (schema.Root, "texts"): "add `texts: {words: {dataset: NAME, method: words}}`, and `texts: words` to its runs",
    (schema.RunNode, "texts"): "add `texts: NAME`, a node of the section texts",
    (schema.RunNode, "scheme"): "add `scheme: plain`",
}
_RETIRED: dict[tuple[type[BaseModel], str], str] = {
    (schema.TrainParams, "min_count"): "moved to texts.<name>.min_count",
    (schema.TrainParams, "max_words"): "moved to texts.<name>.max_words",
    (schema.EvaluateParams, "approximate"): "removed: every item is ranked",
    (schema.Root, "search"): "removed: every item is scored; `vse-pipe export --to faiss` makes an index",
}


def described(model: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """A phrase for an entry of ``ValidationError.errors()`` of ``model``, with a near miss for an unknown key."""
    if problem["type"] in ("extra_forbidden", "missing"):
        *parents, last = problem["loc"]
        holder = _model_at(model, parents)
    if problem["type"] == "extra_forbidden":
        if holder and (holder, last) in _RETIRED:
            return _RETIRED[holder, last]
        close = difflib.get_close_matches(str(last), list(holder.model_fields) if holder else [], n=1)
        return "unknown key" + (f"; did you mean '{close[0]}'?" if close else "")
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if problem["type"] == "missing":
        return "; ".join([message, *([_ADDED[holder, last]] if (holder, last) in _ADDED else [])])
    value = problem["input"]
    return message if isinstance(value, str) and repr(value) in message else f"{message}, got {value!r}"


def _model_at(model: object, place: Iterable) -> type[BaseModel] | None:
    for step in place:
        model = model.model_fields[step].annotation if _is_model(model) else typing.get_args(model)[-1]
    return model if _is_model(model) else None


def _is_model(model: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(model, type) and issubclass(model, BaseModel)


class ParamsReader:
    """file: its name in messages. Problems are collected in ``problems``, and an unreadable value is None.

    Loading ends by raising the problems, so that no None is used, and results have the types of valid values."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def problem(self, address: str, text: str) -> None:
        """Add a problem once, although several runs may read the same key."""
        if (line := f"{self.file} {address}: {text}") not in self.problems:
            self.problems.append(line)

    def model(
        self, model: type[BaseModel], values: dict, address: str, elsewhere: Mapping[str, str] | None = None
    ) -> Any:
        """``values`` as a ``model``. address: of the values, empty for the file; elsewhere: other addresses by key."""

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
        """A ``Member`` with its options. address, elsewhere: of the options, as for ``model``; named_at: address of its
        name."""
        if not self.is_member(family, name, named_at):
            return None
        params = self.model(family.options(name), dict(options or {}), address, elsewhere)
        return None if params is None else Member(name, params)

    def is_member(self, family: Family, name: str, address: str) -> bool:
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
