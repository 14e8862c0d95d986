"""params.yaml after loading: every name resolved to its member, every value validated."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vse_pipe.core.strict import Strict
from vse_pipe.project.params.schema import (
    EmbedParams,
    EngineParams,
    EnsembleNode,
    EvaluateParams,
    GridParams,
    LocalizeParams,
    ReportParams,
    TeacherNode,
    TrainParams,
    TransferNode,
)


@dataclass(frozen=True)
class Member:
    """A family's member by name. params: its own ``Params``, validated; which model that is only its name tells."""

    name: str
    params: Any


@dataclass(frozen=True)
class Dataset:
    format: Member
    source: str
    on_error: str = "fail"
    memory: int = 4096


@dataclass(frozen=True)
class FeatureSet:
    """max_errors: images that may be left out under ``on_error: skip`` beside those that ``prepare`` listed; below 1 a share
    of all, rounded up."""

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
    dataset: str
    protocol: Member


@dataclass(frozen=True)
class GivenModel:
    """A model from elsewhere. folder: what ``vse-pipe pack`` wrote; sha256: of its config.json."""

    folder: str
    sha256: str


@dataclass(frozen=True)
class Run:
    """One model; the members carry the parameters of their sections with the run's ``options`` on top.

    seed: of its training: first weights, order of batches, dropout, crops. model: what takes the place of a training, if
    anything does.
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
    train: TrainParams
    row: str | None = None
    seed: int = 1
    model: GivenModel | None = None


@dataclass(frozen=True)
class Params:
    """Everything in params.yaml, typed. ``inference`` is keyed by criterion, composite names excluded.

    runs: one a model, so a run with seeds is there as its repetitions, ``max/1``, ``max/2``, ...; groups: of each run with
    seeds, and each transfer of one, the names of these. transfers: one a model too, nothing in them left open.
    """

    seed: int
    grid: GridParams
    datasets: dict[str, Dataset]
    features: dict[str, FeatureSet]
    texts: dict[str, TextSet]
    noises: dict[str, Noise]
    runs: dict[str, Run]
    evaluate: EvaluateParams
    inference: dict[str, Strict]
    report: ReportParams
    embed: EmbedParams = field(default_factory=EmbedParams)
    localize: LocalizeParams = field(default_factory=LocalizeParams)
    engine: EngineParams = field(default_factory=EngineParams)
    ensembles: dict[str, EnsembleNode] = field(default_factory=dict)
    transfers: dict[str, TransferNode] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    teachers: dict[str, TeacherNode] = field(default_factory=dict)

    def pairs(self, noise: str) -> Noise:
        """The noise behind a name under ``noises`` or ``teachers``."""
        while noise in self.teachers:
            noise = self.teachers[noise].noise
        return self.noises[noise]

    def evaluated(self) -> list[str]:
        """Everything that is ranked and reported: the runs, the ensembles of runs, and runs on other data sets."""
        return [*self.runs, *self.ensembles, *self.transfers]

    def named(self, models: Iterable[str]) -> list[str]:
        """These as params.yaml names them, one with seeds once."""
        of = {model: name for name, group in self.groups.items() for model in group}
        return list(dict.fromkeys(of.get(model, model) for model in models))

    def trained(self, name: str) -> str:
        """The run whose model it is: of a transfer another one."""
        return self.transfers[name].run if name in self.transfers else name

    def dataset(self, name: str) -> str:
        """What a run, an ensemble or a transfer is measured on."""
        if name in self.transfers:
            return self.transfers[name].dataset
        return self.runs[self.ensembles[name].members[0] if name in self.ensembles else name].dataset

    def models(self, name: str) -> tuple[str, ...]:
        """The names under ``runs`` or ``ensembles`` behind a name of params.yaml: itself, or the repetitions of its seeds."""
        return self.groups.get(name, (name,))
