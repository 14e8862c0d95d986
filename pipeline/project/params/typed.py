"""params.yaml after loading: every name resolved to its member, every value validated."""

from dataclasses import dataclass, field
from typing import Any

from pipeline.core.strict import Strict
from pipeline.project.params.schema import (
    EmbedParams,
    EnsembleNode,
    EvaluateParams,
    GridParams,
    LocalizeParams,
    ReportParams,
    TeacherNode,
)
from pipeline.project.params.training import TrainParams


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
    seeds the names of these. trackers: by name, told of every training.
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
    ensembles: dict[str, EnsembleNode] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    teachers: dict[str, TeacherNode] = field(default_factory=dict)
    trackers: dict[str, Member] = field(default_factory=dict)

    def pairs(self, noise: str) -> Noise:
        """The noise behind a name under ``noises`` or ``teachers``."""
        while noise in self.teachers:
            noise = self.teachers[noise].noise
        return self.noises[noise]

    def evaluated(self) -> list[str]:
        """Everything that is ranked and reported: the runs, then the ensembles of runs."""
        return [*self.runs, *self.ensembles]

    def named(self) -> list[str]:
        """The runs as params.yaml names them, one with seeds once."""
        of = {model: name for name, models in self.groups.items() for model in models}
        return list(dict.fromkeys(of.get(run, run) for run in self.runs))

    def models(self, name: str) -> tuple[str, ...]:
        """The names under ``runs`` or ``ensembles`` behind a name of params.yaml: itself, or the repetitions of its seeds."""
        return self.groups.get(name, (name,))
