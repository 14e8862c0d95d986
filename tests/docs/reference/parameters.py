"""docs/parameters.md: every section and every member with its keys, types, defaults and meanings."""

import re
from collections import Counter
from itertools import groupby
from types import ModuleType

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.docs.reference import descriptions, types
from tests.docs.reference.markdown import first_paragraph, text
from vse_pipe.core.strict import Strict
from vse_pipe.project import code
from vse_pipe.project.params import schema
from vse_pipe.project.registry import (
    BACKBONES,
    FORMATS,
    INFERENCES,
    PROPOSALS,
    PROTOCOLS,
    RUN_FAMILIES,
    TEXT_FEATURES,
    TRACKERS,
    Family,
)

_INTRODUCTION = """# Parameters

Every key of params.yaml. An unknown key, a wrong type and a value out of bounds stop every command with the address.
`vse-pipe -S KEY=VALUE ...` overrides one for a call, `dvc exp run -S KEY=VALUE` for an experiment. The defaults are those
of the code; params.yaml in the repository sets some values of its own for the demo.

A line has the key with its default, its type, and what it means; a key without a default must be given.

This page is written from the code by `python -m tests.docs.reference`."""
# Sections in the order of the page, with the page that tells more.
SECTIONS = {
    "grid": (schema.GridParams, "criteria.md"),
    "datasets.<name>": (schema.DatasetNode, "data.md"),
    "features.<name>": (schema.FeaturesNode, "features.md"),
    "texts.<name>": (schema.TextsNode, "texts.md"),
    "noises.<name>": (schema.NoiseNode, "noise.md"),
    "teachers.<name>": (schema.TeacherNode, "training.md"),
    "runs.<name>": (schema.RunNode, "training.md"),
    "ensembles.<name>": (schema.EnsembleNode, "fragments.md"),
    "transfers.<name>": (schema.TransferNode, "evaluate.md"),
    "train": (schema.TrainParams, "training.md"),
    "embed": (schema.EmbedParams, "fragments.md"),
    "evaluate": (schema.EvaluateParams, "criteria.md"),
    "engine": (schema.EngineParams, "extract.md"),
    "report": (schema.ReportParams, "sweeps.md"),
    "report.sweeps.<name>": (schema.SweepNode, "sweeps.md"),
}
# Families whose member a node names, with the keys that name them.
_OF_NODES = {
    "datasets.<name>": [("format", FORMATS), ("proposals", PROPOSALS)],
    "features.<name>": [("backbone", BACKBONES)],
    "texts.<name>": [("method", TEXT_FEATURES)],
    "noises.<name>": [("protocol", PROTOCOLS)],
}


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _seed()]
    for address, (model, more) in SECTIONS.items():
        said = [_about(model, address, more), *keys(model, model.model_fields)]
        parts += [f"## {text(address)}", "\n".join(said)]
        for key, family in _OF_NODES.get(address, []):
            parts += _family(key, family)
    for key, family in (*RUN_FAMILIES.items(), ("inference", INFERENCES), ("trackers", TRACKERS)):
        parts += [f"## {key}", f"One entry a member, `{key}.<member>`. {_SAID.get(key, _RUNS)}"]
        parts += _family(key, family)
    return "\n\n".join(parts) + "\n"


_RUNS = "A run names the member, and `options` of the run override single values."
_SAID = {
    "inference": "`grid.inferences` names those that every run is ranked under.",
    "trackers": "Each that has an entry is told of every training. More: [sharing.md](sharing.md#trackers).",
}


def _seed() -> str:
    field = schema.Root.model_fields["seed"]
    return f"## seed\n\nEverything random derives from it: {types.describe(field)}."


def _about(model: type[BaseModel], address: str, more: str) -> str:
    said = descriptions.of_model(model)
    said = said.removeprefix(f"{text(address)}:").strip()
    return f"{said[:1].upper()}{said[1:].rstrip(':')} More: [{more}]({more})."


def _family(key: str, family: Family) -> list[str]:
    """The members' sections, options that several of them share in one list of their own."""
    members = {name: family.options(name) for name in family.names()}
    bases = _shared_bases([*members.values()])
    parts = []
    for base in bases:
        own = {name: base.model_fields[name] for name in _own(base)}
        said = descriptions.of_model(base) or "Options that several members have."
        parts += [f"### {_shared_title(key, base)}", "\n".join([said, *keys(base, own)])]
    for name, options in members.items():
        shared = [base for base in bases if issubclass(options, base)]
        taken = {option for base in shared for option in _own(base) if _unchanged(options, base, option)}
        own = {option: field for option, field in options.model_fields.items() if option not in taken}
        said = " ".join(filter(None, [_member(family, name), _elsewhere(key, shared, own)]))
        parts += [f"### {key}: {name}", "\n".join([said, *keys(options, own)])]
    return parts


def _elsewhere(key: str, shared: list[type[BaseModel]], own: dict) -> str:
    """Where the member's options are, but for those that are listed below it."""
    titles = [_shared_title(key, base) for base in shared]
    links = " and ".join(f"[{title}](#{anchor(title)})" for title in titles)
    if not shared:
        return "" if own else "No options."
    return f"{'Further' if own else 'Its'} options: {links}."


def _member(family: Family, name: str) -> str:
    """First line of the member, the source of its callable, the file that does the work."""
    module, path = family.load(name), code.file(family.module(name))
    said = [first_paragraph(module.__doc__)]
    source = re.search(r"Source: (.*?)(?:;|\.\s+[A-Z]|\.?$)", _callable_doc(module))
    if source:
        said.append(f"Source: {text(source.group(1))}.")
    return " ".join([*said, f"([code](../{path.relative_to(code.PACKAGE.parents[1]).as_posix()}))"])


def _callable_doc(module: ModuleType) -> str:
    documents = (
        " ".join((one.__doc__ or "").split())
        for name, one in vars(module).items()
        if callable(one) and getattr(one, "__module__", "") == module.__name__ and name != "Params"
    )
    return next((found for found in documents if "Source: " in found), "")


def keys(model: type[BaseModel], fields: dict) -> list[str]:
    """A line a key; neighbours of one type and meaning share one."""
    meanings = descriptions.of_keys(model)
    said = [(name, types.describe(field), meanings.get(name, "")) for name, field in fields.items()]
    lines = []
    for (kind, meaning), alike in groupby(said, key=lambda one: one[1:]):
        named = ", ".join(_with_default(name, fields[name]) for name, *_ in alike)
        lines.append(f"- {named} ({kind}): {meaning}")
    return lines


def _with_default(name: str, field: FieldInfo) -> str:
    return f"`{name}`" if field.is_required() else f"`{name}: {types.default(field)}`"


def _shared_bases(models: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """Bases with options of their own that two or more of ``models`` have, general ones first."""
    counted = Counter(base for model in models for base in model.__mro__[1:] if _is_options(base) and _own(base))
    return sorted((base for base, times in counted.items() if times > 1), key=lambda base: len(base.__mro__))


def _is_options(base: type) -> bool:
    return issubclass(base, Strict) and base is not Strict


def _own(base: type[BaseModel]) -> list[str]:
    return [name for name in base.__annotations__ if name in base.model_fields]


def _unchanged(model: type[BaseModel], base: type[BaseModel], option: str) -> bool:
    ours, theirs = model.model_fields[option], base.model_fields[option]
    return types.describe(ours) == types.describe(theirs) and types.default(ours) == types.default(theirs)


def _shared_title(key: str, base: type[BaseModel]) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", base.__name__).removesuffix(" Params").lower()
    return f"{key}: shared options{'' if words == 'options' else f' of {words}s'}"


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
