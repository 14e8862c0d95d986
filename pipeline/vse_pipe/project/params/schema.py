"""The sections of params.yaml that do not belong to a family's member."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
)

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.project.params.engine import EngineParams
from vse_pipe.project.params.ensemble_node import EnsembleNode
from vse_pipe.project.params.measuring import EvaluateParams
from vse_pipe.project.params.seeds import Seed, Seeds
from vse_pipe.project.params.training import TrainParams
from vse_pipe.project.params.transfer_node import TransferNode

# What the pipeline appends to a node's folder while it is written, locked and timed.
_ENDINGS = (".partial", ".lock", ".timing.json")
# File systems allow 255 bytes a name, and the pipeline appends to it.
_LONGEST = 200


def _no_ending_of_ours(name: str) -> str:
    for ending in _ENDINGS:
        if name.endswith(ending):
            raise ValueError(f"a name must not end in {ending}: files of the node '{name[: -len(ending)]}' do")
    if len(name) > _LONGEST:
        raise ValueError(f"a name has at most {_LONGEST} characters, this one {len(name)}: files are named after it")
    return name


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"), AfterValidator(_no_ending_of_ours)]
OnError = Literal["fail", "skip"]


def _a_count_or_a_share(most: float) -> float:
    if most > 1 and most != int(most):
        raise ValueError("expected a whole number of images, or a share below 1")
    return most


Limit = Annotated[NonNegativeFloat, AfterValidator(_a_count_or_a_share)]


class _Open(Strict):
    """A node whose further keys are the options of the member it names; those are checked by the member."""

    model_config = ConfigDict(extra="allow")


class DatasetNode(_Open):
    """datasets.<name>: a data set and the format it is read with. Further keys are the options of the format."""

    format: str
    """layout of the files"""
    source: str
    """their place, relative to the project or absolute"""
    on_error: OnError = "fail"
    """at images that are missing or do not decode, ``prepare`` and ``extract`` stop, or list them and leave them out"""
    memory: PositiveInt = 4096
    """MiB of captions, and of pictures in Parquet files, while ``prepare`` reads them"""


class FeaturesNode(_Open):
    """features.<name>: one feature file of one data set. Further keys are the options of the backbone."""

    dataset: str
    """a name under datasets"""
    backbone: str
    """member that computes the features"""
    on_error: OnError | None = None
    """stop at the first unreadable image, or record it and go on; null: as the data set says"""
    max_errors: Limit = 0.01
    """images that may be left out beside those that ``prepare`` lists: a number, or below 1 a share (rounded up)"""


class TextsNode(_Open):
    """texts.<name>: what the text encoders read of the captions of one data set, token ids or one vector each.
    Further keys are the options of the method."""

    dataset: str
    """a name under datasets"""
    method: str
    """member that computes them"""


class NoiseNode(_Open):
    """noises.<name>: the pairs of one data set, with or without injected mismatches. Further keys are the options
    of the protocol."""

    dataset: str
    """a name under datasets"""
    protocol: str
    """member that chooses the mismatched pairs"""


class TeacherNode(Strict):
    """teachers.<name>: pairs of one data set, with a trained run whose similarities runs on them are drawn to."""

    dataset: str
    """a name under datasets"""
    noise: str
    """a noise, whose pairs these are, or another teacher, which teaches as well"""
    run: str
    """a run that compares by cosine and has embedded train; a run with seeds stands for all its models"""
    weight: PositiveFloat = 1.0
    """of its cosines in the mean over all teachers; only proportions count"""


class RunNode(Strict):
    """runs.<name>: one model; every entry up to ``sampler`` names a node or a family's member."""

    dataset: str
    """under datasets"""
    features: str
    """under features"""
    texts: str
    """under texts"""
    noise: str
    """under noises, or under teachers for a scheme with a teacher"""
    loss: str
    """member of the family"""
    scheme: str
    """member of the family"""
    similarity: str
    """member of the family"""
    text: str
    """encoder of the side"""
    image: str
    """encoder of the side"""
    sampler: str = "captions"
    """member that makes the batches"""
    row: str | None = None
    """row of a paper's table that this run repeats, such as ``hal-aaai2020 2.12``; the report shows both"""
    options: dict[str, dict] = Field(default_factory=dict)
    """options of this run's members by family, such as ``{loss: {gamma: 60}}``"""
    train: dict = Field(default_factory=dict)
    """values that override the section train"""
    seeds: Seeds | None = None
    """one model a seed, such as ``[1, 2, 3]``, reported as mean and spread; null: one model of the project's seed"""
    model: str | None = None
    """folder written by ``vse-pipe pack``; ``train`` takes its model and trains nothing"""
    sha256: Digest | None = None
    """required digest of its config.json, which holds the digests of weights and vocabulary"""


class EmbedParams(Strict):
    """embed: what is exported of every run."""

    splits: Annotated[list[Literal["train", "val", "test", "proposal"]], Field(min_length=1)] | None = None
    """splits to embed; null: all, or val and test for models that compare fragments"""
    memory: PositiveInt = 4096
    """MiB of vectors in memory; parts of this size are written one by one. Another size can change last bits of
    captions"""


class LocalizeParams(Strict):
    """localize: how the boxes that a run finds for phrases are measured."""

    split: Literal["test", "val"] = "test"
    """phrases to find, each among the proposals of its picture"""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    """smallest intersection over union of a correct box with the true one"""
    nms: Annotated[float, Field(gt=0, le=1)] = 0.8
    """for mAP: of two boxes that overlap more than this, the worse is dropped"""
    average_precision: Literal["area", "eleven_point"] = "area"
    """area under the curve of precision and recall, or the mean at eleven recalls"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap over pictures behind the 95% intervals; 0: no intervals"""


class SweepNode(Strict):
    """report.sweeps.<name>: runs that differ in one value, drawn against it."""

    x: str
    """address of the value inside a run, such as ``loss.k`` or ``train.batch_size``; ``epoch`` draws learning curves"""
    runs: list[str] = Field(min_length=1)
    """points, or lines of the curves"""
    baselines: list[str] = Field(default_factory=list)
    """runs drawn as level lines"""
    inference: str = "nns"
    """criterion of the rsum"""
    title: str = ""
    """of the axis"""


class ReportParams(Strict):
    """report: what the page shows beside the tables."""

    title: str | None = None
    """of the page; null: the names of the runs' data sets"""
    examples: Annotated[int, Field(ge=0, le=100)] = 8
    """queries shown with their results"""
    thumbnail: Annotated[int, Field(ge=32, le=512)] = 128
    """pixels of a picture's longer side"""
    sweeps: dict[Name, SweepNode] = Field(default_factory=dict)
    """by name, see below"""
    audits: list[str] = Field(default_factory=list)
    """runs whose audit is shown"""
    localized: list[str] = Field(default_factory=list)
    """runs on regions whose localisation is shown"""
    claims: str | None = None
    """file of claims to judge, from the project's root, or ``papers``"""


class GridParams(Strict):
    """grid: which criteria rank every run."""

    inferences: list[str] = Field(min_length=1)
    """members of the family inference, or ``rescoring+matching``"""


class Root(Strict):
    """The whole file. The family sections (loss, similarity, ...) are checked by the members they name."""

    seed: Seed
    grid: GridParams
    datasets: dict[Name, DatasetNode]
    features: dict[Name, FeaturesNode]
    texts: dict[Name, TextsNode]
    noises: dict[Name, NoiseNode]
    teachers: dict[Name, TeacherNode] = Field(default_factory=dict)
    runs: dict[Name, RunNode]
    ensembles: dict[Name, EnsembleNode] = Field(default_factory=dict)
    transfers: dict[Name, TransferNode] = Field(default_factory=dict)
    train: TrainParams
    embed: EmbedParams = Field(default_factory=EmbedParams)
    evaluate: EvaluateParams
    localize: LocalizeParams = Field(default_factory=LocalizeParams)
    report: ReportParams
    engine: EngineParams = Field(default_factory=EngineParams)
    loss: dict[str, dict] = Field(default_factory=dict)
    scheme: dict[str, dict] = Field(default_factory=dict)
    sampler: dict[str, dict] = Field(default_factory=dict)
    similarity: dict[str, dict] = Field(default_factory=dict)
    text: dict[str, dict] = Field(default_factory=dict)
    image: dict[str, dict] = Field(default_factory=dict)
    inference: dict[str, dict] = Field(default_factory=dict)


class Measuring(Strict):
    """What --set may change where vectors come from files and there is no params.yaml;"""

    seed: Seed = 1
    """of the bootstrap"""
    evaluate: EvaluateParams = Field(default_factory=EvaluateParams)
    engine: EngineParams = Field(default_factory=EngineParams)
    inference: dict[str, dict] = Field(default_factory=dict)
