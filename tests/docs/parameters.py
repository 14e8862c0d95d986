"""parameters.md of the site: every section and every member with its keys, types, defaults and meanings."""

import re
import types
import typing
from collections import Counter
from functools import cache
from itertools import groupby

from pydantic import BaseModel
from pydantic._internal._docs_extraction import extract_docstrings_from_cls
from pydantic.fields import FieldInfo

from tests.docs.pages import anchor
from vse_pipe.core.strict import Strict
from vse_pipe.project import code as project_code
from vse_pipe.project import registry
from vse_pipe.project.engines.options import EngineParams
from vse_pipe.project.params import nodes, schema
from vse_pipe.project.registry import BACKBONES, FORMATS, INFERENCES, PROPOSALS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES

_INTRODUCTION = """# Parameters

Every key of params.yaml. An unknown key, a wrong type or a value out of bounds stops every command with its address.
`vse-pipe -S KEY=VALUE ...` overrides a value for one call, `dvc exp run -S KEY=VALUE` for one experiment. Defaults are those
of the code; the demo's params.yaml sets some values of its own.

A line gives a key with its default, its type and its meaning. A key without a default is required. Where the default shows the type,
only bounds or other choices are given: `3` stands for whole numbers, `3.0` for numbers, true for true or false. A key whose
default is null takes null as well. `[0, 1)` means from 0 to below 1.

A run names one member of each family from `loss` to `sampler`. The section `<family>.<member>` holds the member's options, and
`options` of the run overrides single values. The linked pages say what each member does."""
# Sections in the order of the page, with the page that tells more.
SECTIONS = {
    "grid": (schema.GridParams, "criteria.md"), "datasets.<name>": (nodes.DatasetNode, "data.md"),
    "features.<name>": (nodes.FeaturesNode, "features.md"), "texts.<name>": (nodes.TextsNode, "features.md"),
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

# Every family with the key that names its members, in the order of the page.
_FAMILIES = [pair for pairs in _OF_NODES.values() for pair in pairs]
_SECTIONS = [*RUN_FAMILIES.items(), ("inference", INFERENCES)]
_SAID = {
    "loss": "More: [losses.md](losses.md).",
    "inference": "`grid.inferences` names the criteria that rank every run. More: [criteria.md](criteria.md).",
}


def page() -> str:
    """The whole page."""
    seed = describe(schema.Root.model_fields["seed"])
    parts = [_INTRODUCTION, f"## seed\n\nEverything random derives from it: {seed}."]
    for address, (model, more) in SECTIONS.items():
        said = [_about(model, address, more), "\n".join(keys(model, model.model_fields))]
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
    """The members' sections, before them the options that several members share."""
    parts = []
    for base, title in _shared().items():
        if title.startswith(f"{key}: "):
            own = {name: base.model_fields[name] for name in _own(base)}
            parts += [f"### {title}", of_model(base), "\n".join(keys(base, own))]
    for name in family.names():
        options = family.options(name)
        shared = [base for base in _shared() if issubclass(options, base)]
        changed, own = _split(options, shared)
        path = project_code.file(family.module(name)).relative_to(project_code.PACKAGE.parents[1])
        said = f"[Code](../{path.as_posix()}). {_elsewhere(shared, changed, own)}".rstrip()
        parts += [f"### {key}: {name}", said, "\n".join(keys(options, own))]
    return [part for part in parts if part]


def _split(options: type[BaseModel], shared: list[type[BaseModel]]) -> tuple[list[str], dict[str, FieldInfo]]:
    """Shared options with another default, as code; the options that the member's own section explains."""
    own, changed = dict(options.model_fields), []
    for name in [name for base in shared for name in _own(base)]:
        base = next(base for base in reversed(shared) if name in _own(base))
        theirs, ours = base.model_fields[name], options.model_fields[name]
        same = describe(theirs) == describe(ours)
        if name in own and same and of_keys(base)[name] == of_keys(options)[name]:
            del own[name]
            changed += [_with_default(name, ours)] * (default(theirs) != default(ours))
    return changed, own


def _elsewhere(shared: list[type[BaseModel]], changed: list[str], own: dict[str, FieldInfo]) -> str:
    """The member's shared options: links to them, and the defaults that differ."""
    if not shared:
        return "" if own else "No options."
    titles = [_shared()[base] for base in shared]
    links = " and ".join(f"[{title.rpartition(' of ')[2]}](#{anchor(title)})" for title in titles)
    return f"Options of {links}{', with ' + ', '.join(changed) if changed else ''}."


def keys(model: type[BaseModel], fields: dict) -> list[str]:
    """A line a key; neighbours of one meaning share one."""
    meanings = of_keys(model)
    lines = []
    for meaning, names in groupby(fields, key=lambda name: meanings.get(name, "")):
        typed = groupby(names, key=lambda name: _type(fields[name]))
        named = [", ".join(_with_default(name, fields[name]) for name in alike) + kind for kind, alike in typed]
        lines.append(f"- {', '.join(named)}: {meaning}")
    return lines


def _type(field: FieldInfo) -> str:
    """In brackets; nothing where the default shows it."""
    kind = describe(field) if field.is_required() else beside_default(field)
    return f" ({kind})" if kind else ""


def _with_default(name: str, field: FieldInfo) -> str:
    return f"`{name}`" if field.is_required() else f"`{name}: {default(field)}`"


@cache
def _shared() -> dict[type[BaseModel], str]:
    """Bases whose options two or more members have, general ones first, each with its title: in the first family that has it."""
    first: dict[type[BaseModel], str] = {}
    counted: Counter[type[BaseModel]] = Counter()
    for key, family in [*_FAMILIES, *_SECTIONS]:
        for name in family.names():
            options = [base for base in family.options(name).__mro__[1:] if issubclass(base, Strict)]
            for base in options[:-1]:
                counted[base] += bool(_own(base))
                first.setdefault(base, key)
    bases = sorted((base for base, times in counted.items() if times > 1), key=lambda base: len(base.__mro__))
    return {base: _shared_title(first[base], base) for base in bases}


def _own(base: type[BaseModel]) -> list[str]:
    return [name for name in base.__annotations__ if name in base.model_fields]


def _shared_title(key: str, base: type[BaseModel]) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", base.__name__).removesuffix(" Params").lower()
    return f"{key}: shared options{'' if words == 'options' else f' of {words}s'}"


def text(docstring: str) -> str:
    """A docstring's text on one line: double back-ticks become single, angle brackets outside code are escaped."""
    line = " ".join(docstring.split()).replace("``", "`")
    # Every other piece lies between back-ticks.
    pieces = line.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", r"\*") for piece in pieces[::2]]
    return "`".join(pieces)


def code(value: str) -> str:
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
    if origin is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "mapping"
    if any(getattr(one, "pattern", None) == _DIGEST for one in metadata):
        return "SHA-256"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind))) + _bounds(metadata)


def _bounds(metadata: typing.Sequence) -> str:
    found = [(sign, getattr(one, name, None)) for name, sign in _BOUNDS.items() for one in metadata]
    limits = [(sign, _number(bound)) for sign, bound in found if bound is not None]
    fewest, most = (max((getattr(one, end, None) or 1 for one in metadata), default=1) for end in _LENGTHS)
    patterns = [one.pattern for one in metadata if getattr(one, "pattern", None)]
    length = f", {fewest} of them" if most == fewest > 1 else f", at least {fewest}" if fewest > 1 else ""
    return _range(limits) + length + "".join(f" like `{pattern}`" for pattern in patterns)


def _range(limits: list[tuple[str, str]]) -> str:
    """`` > 0``, `` in [0, 1)``."""
    if len(limits) == 2:
        (low, least), (high, most) = limits
        return f" in {_BRACKETS[low]}{least}, {most}{_BRACKETS[high]}"
    return "".join(f" {sign} {bound}" for sign, bound in limits)


def _number(value: float) -> str:
    power = isinstance(value, int) and value >= 2**16 and not value & (value - 1)
    return f"2^{value.bit_length() - 1}" if power else f"{value:g}"


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
    return str(value) if value != "" else '""'
