"""parameters.md of the site: every section and every member with its keys, types, defaults and meanings."""

import json
from typing import Any

from pydantic import BaseModel
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from vse_pipe.core.strict import Strict
from vse_pipe.project import code as project_code
from vse_pipe.project import registry
from vse_pipe.project.params import nodes, schema
from vse_pipe.project.params.nodes import EngineParams
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

_INTRODUCTION = """# Parameters

Every key of params.yaml. An unknown key, a wrong type or a value out of bounds stops every command with its address.
`vse-pipe -S KEY=VALUE ...` overrides a value for one call, `dvc exp run -S KEY=VALUE` for one experiment. Defaults are those
of the code; the demo's params.yaml sets some values of its own.

A line gives a key with its default, its type and its meaning. A key without a default is required.

A run names one member of each family from `loss` to `sampler`. The section `<family>.<member>` holds the member's options, and
`options` of the run overrides single values. The linked pages say what each member does."""
# Sections in the order of the page, with the page that tells more.
SECTIONS = {
    "grid": (schema.GridParams, "criteria.md"), "datasets.<name>": (nodes.Dataset, "data.md"),
    "features.<name>": (nodes.FeatureSet, "features.md"), "texts.<name>": (nodes.TextSet, "features.md"),
    "noises.<name>": (nodes.NoiseNode, "noise.md"), "teachers.<name>": (nodes.TeacherNode, "training.md"),
    "runs.<name>": (nodes.RunNode, "training.md"), "ensembles.<name>": (schema.EnsembleNode, "fragments.md"),
    "transfers.<name>": (schema.TransferNode, "evaluate.md"), "train": (schema.TrainParams, "training.md"),
    "embed": (schema.EmbedParams, "fragments.md"), "evaluate": (schema.EvaluateParams, "criteria.md"),
    "engine": (EngineParams, "features.md"), "localize": (schema.LocalizeParams, "localisation.md"),
    "report": (schema.ReportParams, "experiments.md"), "report.sweeps.<name>": (schema.SweepNode, "experiments.md"),
}  # fmt: skip
# Families whose member a node names, with the keys that name them.
_OF_NODES = {
    "datasets.<name>": [("format", FORMATS), ("proposals", PROPOSALS)],
    "features.<name>": [("backbone", BACKBONES)],
    "texts.<name>": [("method", TEXT_FEATURES)],
    "noises.<name>": [("protocol", PROTOCOLS)],
}

_SECTIONS = [*RUN_FAMILIES.items(), ("inference", INFERENCES)]
_SAID = {
    "loss": "More: [losses.md](losses.md).",
    "inference": "`grid.inferences` names the criteria that rank every run. More: [criteria.md](criteria.md).",
}


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, "## seed\n\nEverything random derives from it: a whole number."]
    for address, (model, more) in SECTIONS.items():
        said = [_about(model, address, more), "\n".join(keys(model))]
        parts += [f"## {text(address)}", *said]
        for key, family in _OF_NODES.get(address, []):
            parts += _family(key, family)
    for key, family in _SECTIONS:
        parts += [f"## {key}", _SAID.get(key, "More: [training.md](training.md)."), *_family(key, family)]
    return "\n\n".join(parts) + "\n"


def _about(model: type[BaseModel], address: str, more: str) -> str:
    said = of_model(model)
    said = said.removeprefix(f"{text(address)}:").strip()
    return f"{said[:1].upper()}{said[1:].rstrip(':')} More: [{more}]({more})."


def _family(key: str, family: registry.Family) -> list[str]:
    """The members' sections."""
    parts = []
    for name in family.names():
        path = project_code.file(family.module(name)).relative_to(project_code.PACKAGE.parents[1])
        lines = keys(family.options(name)) or ["No options."]
        parts += [f"### {key}: {name}", f"[Code](../{path.as_posix()}).", "\n".join(lines)]
    return parts


def keys(model: type[BaseModel]) -> list[str]:
    """A line a key."""
    meanings, document = of_keys(model), model.model_json_schema()
    return [
        f"- {_with_default(model, name)} ({_kind(content)}): {meanings.get(name, '')}"
        for name, content in document["properties"].items()
    ]


def _with_default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return f"`{name}`"
    value = field.get_default(call_default_factory=True)
    text_of_value = value if isinstance(value, str) and value else json.dumps(value, default=lambda _: {})
    return f"`{name}: {text_of_value}`"


_NAMES = {"integer": "whole number", "string": "text", "object": "mapping", "array": "list"}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _kind(content: dict[str, Any]) -> str:
    """``whole number ≥ 1``, ``one of `a`, `b` ``, ``list of text``; of a property in a JSON schema."""
    if "anyOf" in content:
        return " or ".join(map(_kind, content["anyOf"]))
    if choices := content.get("enum", [content["const"]] if "const" in content else []):
        return "one of " + ", ".join(code(choice) for choice in choices)
    if "items" in content:
        return f"list of {_kind(content['items'])}"
    kind = content.get("type", "object" if "$ref" in content else "text or number")
    return " ".join(
        [_NAMES.get(kind, kind), *(f"{sign} {content[key]:g}" for key, sign in _BOUNDS.items() if key in content)]
    )


def text(docstring: str) -> str:
    """A docstring's text on one line: double back-ticks become single, angle brackets outside code are escaped."""
    line = " ".join(docstring.split()).replace("``", "`")
    # Every other piece lies between back-ticks.
    pieces = line.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", r"\*") for piece in pieces[::2]]
    return "`".join(pieces)


def code(value: object) -> str:
    return f"`{value}`"


def of_keys(model: type[BaseModel]) -> dict[str, str]:
    """The meaning of each key that is explained; that of the model itself wins over that of its bases."""
    said: dict[str, str | None] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, Strict):
            said |= extract_docstrings_from_cls(base, use_inspect=True)
            said |= {name: field.description for name, field in base.model_fields.items() if field.description}
    return {name: text(meaning).rstrip(".") for name, meaning in said.items() if meaning}


def of_model(model: type[BaseModel]) -> str:
    """The model's docstring on one line."""
    return text(model.__doc__ or "")
