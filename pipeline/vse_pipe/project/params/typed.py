"""params.yaml as typed objects."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vse_pipe.core.errors import ParamsError, UsageError, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project.params import schema
from vse_pipe.project.params.nodes import Dataset as Dataset
from vse_pipe.project.params.nodes import EngineParams
from vse_pipe.project.params.nodes import FeatureSet as FeatureSet
from vse_pipe.project.params.nodes import TextSet as TextSet
from vse_pipe.project.registry import BACKBONES, ends_in_matching
from vse_pipe.project.registry import Member as Member

# Entries of a run that name a node; their values are the options of the node's member.
_NODES = {"dataset": "datasets", "features": "features", "texts": "texts", "noise": "noises"}


@dataclass(frozen=True)
class Noise:
    """The pairs of a data set. seed: of the draw."""

    dataset: str
    protocol: Member
    seed: int = 1


@dataclass(frozen=True)
class Run:
    """One model. The members have the parameters of their sections, overridden by the run's
    ``options``.

    seed: of first weights, order of batches, dropout and crops.
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


@dataclass(frozen=True)
class Params:
    """params.yaml, typed. inference: by criterion, without composite names.

    runs: by model, so that a run with seeds is ``max/1``, ``max/2``, ...; groups: these names for
    each run with seeds and each of its transfers. transfers: by model too, complete. noises: by
    draw, so that a noise with seeds is ``n60/1``, ``n60/2``, ...; draws: these names for each noise
    with seeds.
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
        """The names of models for a name of params.yaml: itself, or its seeds."""
        return self.groups.get(name, (name,))

    def one_model(self, name: str) -> str:
        """``name`` if it is one model. Raises UsageError with its seeds otherwise."""
        if models := ", ".join(self.groups.get(name, ())):
            raise UsageError(f"run '{name}' has a model for each of its seeds; name one of them: {models}")
        return name

    def trainings(self, name: str) -> list[str]:
        """The runs behind a name: seeds, members of an ensemble, the run of a transfer."""
        nodes = [self.ensembles.get(model) for model in self.models(name)]
        members = [node.members if node else (name,) for node in nodes]
        return list(
            dict.fromkeys(self.trained(run) for names in members for each in names for run in self.models(each))
        )

    def ranked_under(self, name: str) -> list[str]:
        """The criteria of the grid that rank a run or ensemble: matchings need scores of one
        scale."""
        node = self.ensembles.get(name)
        is_comparable = node is None or node.is_comparable
        return [entry for entry in self.grid.inferences if is_comparable or not ends_in_matching(entry)]

    def number(self, run: str, address: str) -> Any:
        """The number at an address such as ``loss.margin`` in a run, or in its first seed: the
        seeds differ in nothing else. None where there is none."""
        key, _, option = address.partition(".")
        part = getattr(self.runs[self.models(run)[0]], key, None)
        if key in _NODES and (node := getattr(self, _NODES[key]).get(part)):
            part = next(entry for entry in vars(node).values() if isinstance(entry, Member))
        options = part.params if isinstance(part, Member) else part
        number = flat(options.model_dump()).get(option) if isinstance(options, Strict) else None
        return number if type(number) in (int, float) else None


def with_backbone(params: Params, spec: str, dataset: str | None, weights: str) -> tuple[Params, str]:
    """``params`` with a further entry under features, and its name.

    spec: ``torchvision:resnet18``, or ``vgg19`` for a backbone without a model; dataset: optional
    when params.yaml has only one. Raises UnknownMember, UsageError and ParamsError."""
    name, _, model = spec.partition(":")
    values = {"model": model} if model else {}
    if "weights" in BACKBONES.options(name).model_fields:
        values["weights"] = weights
    elif weights != "imagenet":
        raise UsageError(f"--weights: backbone {name} has none")
    try:
        options = BACKBONES.read(name, values)
    except ValidationError as error:
        problems = [(".".join(map(str, p["loc"])), p["msg"]) for p in error.errors()]
        raise ParamsError(*(f"--backbone {spec} {key}: {text}" for key, text in problems)) from error
    if dataset is None and len(params.datasets) > 1:
        raise UsageError(f"--dataset is missing: params.yaml has {', '.join(sorted(params.datasets))}")
    dataset = dataset or next(iter(params.datasets))
    if dataset not in params.datasets:
        raise UsageError(unknown("data set", dataset, sorted(params.datasets)))
    # A folder name that differs between specs and between weights: torchvision-resnet18-random.
    weighted = values.get("weights", "imagenet") != "imagenet"
    title = f"{spec}-{Path(weights).with_suffix('')}" if weighted else spec
    title = re.sub(r"[^A-Za-z0-9_.+-]", "-", title)
    entry = FeatureSet(dataset=dataset, backbone=Member(name, options))
    if params.features.get(title, entry) != entry:
        raise UsageError(f"features.{title} of params.yaml has other options: give --features {title}, or rename it")
    return replace(params, features={**params.features, title: entry}), title


def flat(values: dict, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dictionaries, with keys ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves
