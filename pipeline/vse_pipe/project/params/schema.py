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
from vse_pipe.project.params.engine import EngineParams as EngineParams
from vse_pipe.project.params.ensemble_node import EnsembleNode as EnsembleNode
from vse_pipe.project.params.measuring import EvaluateParams as EvaluateParams
from vse_pipe.project.params.seeds import Seed, Seeds
from vse_pipe.project.params.training import TrainParams
from vse_pipe.project.params.transfer_node import TransferNode as TransferNode

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
    """how the files are laid out"""
    source: str
    """where they are, relative to the project or absolute"""
    on_error: OnError = "fail"
    """whether ``prepare`` and ``extract`` stop at images that are missing or do not decode, or leave them out and list them"""
    memory: PositiveInt = 4096
    """MiB that captions, and pictures in Parquet files, may take while ``prepare`` reads them"""


class FeaturesNode(_Open):
    """features.<name>: one feature file of one data set. Further keys are the options of the backbone."""

    dataset: str
    """a name under datasets"""
    backbone: str
    """what computes the features"""
    on_error: OnError | None = None
    """``skip`` leaves images that cannot be read out and records them, ``fail`` stops at the first; null: as the data set says"""
    max_errors: Limit = 0.01
    """how many may be left out beside those that ``prepare`` has listed, a number of images, or below 1 a share of them
    (rounded up)"""


class TextsNode(_Open):
    """texts.<name>: what the text encoders read of the captions of one data set, token ids or one vector each.
    Further keys are the options of the method."""

    dataset: str
    """a name under datasets"""
    method: str
    """how they are computed"""


class NoiseNode(_Open):
    """noises.<name>: the pairs of one data set, with or without injected mismatches. Further keys are the options
    of the protocol."""

    dataset: str
    """a name under datasets"""
    protocol: str
    """which pairs are mismatched"""


class TeacherNode(Strict):
    """teachers.<name>: pairs of one data set, with a trained run whose similarities runs on them are drawn to."""

    dataset: str
    """a name under datasets"""
    noise: str
    """under noises, whose pairs these are; or under teachers, whose runs teach beside this one"""
    run: str
    """under runs, compared by cosine and embedded with its training split; of one with seeds all its models"""
    weight: PositiveFloat = 1.0
    """of its cosines in the mean of all runs that teach together; only proportions count"""


class RunNode(Strict):
    """runs.<name>: one model; every entry up to ``sampler`` names a node or a family's member."""

    dataset: str
    """under datasets"""
    features: str
    """under features"""
    texts: str
    """under texts"""
    noise: str
    """under noises, or under teachers for a scheme that has one"""
    loss: str
    """a member of the family of that name"""
    scheme: str
    """a member of the family of that name"""
    similarity: str
    """a member of the family of that name"""
    text: str
    """the encoder of that side"""
    image: str
    """the encoder of that side"""
    sampler: str = "captions"
    """what makes the batches"""
    row: str | None = None
    """the row of a paper's table that this run repeats, for example ``hal-aaai2020 2.12``; the report sets the
    two side by side"""
    options: dict[str, dict] = Field(default_factory=dict)
    """values for this run's members on top of the family sections, by family: ``{loss: {gamma: 60}}``"""
    train: dict = Field(default_factory=dict)
    """values on top of the section train"""
    seeds: Seeds | None = None
    """a model each, ``[1, 2, 3]``: the run is trained once a seed, and reported as mean and spread; null: one model, of the
    project's seed"""
    model: str | None = None
    """a folder that ``vse-pipe pack`` wrote, of this project or of others, relative to the project or absolute: ``train`` takes
    its model and trains nothing"""
    sha256: Digest | None = None
    """of ``model``: that of its config.json, which holds the digests of weights and vocabulary"""


class EmbedParams(Strict):
    """embed: what is exported of every run."""

    splits: Annotated[list[Literal["train", "val", "test", "proposal"]], Field(min_length=1)] | None = None
    """whose images and captions are embedded; null: all, of models that compare fragments val and test"""
    memory: PositiveInt = 4096
    """MiB that vectors may take while they are computed and written: so many are a part, written at a time; in other parts captions share other batches, which can change last bits"""


class LocalizeParams(Strict):
    """localize: how the boxes that a run finds for phrases are measured."""

    split: Literal["test", "val"] = "test"
    """whose phrases are sought, each among the proposals of its picture"""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    """a box is correct from this intersection over union with the true one on"""
    nms: Annotated[float, Field(gt=0, le=1)] = 0.8
    """for mAP, of two boxes that overlap by more than this the worse one goes"""
    average_precision: Literal["area", "eleven_point"] = "area"
    """the area under the curve of precision and recall, or the mean at eleven recalls"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap over pictures behind the 95% intervals; 0 leaves them out"""


class SweepNode(Strict):
    """report.sweeps.<name>: runs that differ in one value, drawn against it."""

    x: str
    """the value's address inside a run, such as ``loss.k`` or ``train.batch_size``; ``epoch`` draws learning curves"""
    runs: list[str] = Field(min_length=1)
    """the points, or the lines of the curves"""
    baselines: list[str] = Field(default_factory=list)
    """runs drawn as level lines"""
    inference: str = "nns"
    """the criterion whose rsum is shown"""
    title: str = ""
    """of the axis"""


class ReportParams(Strict):
    """report: what the page shows beside the tables."""

    title: str | None = None
    """of the page; null to name the data sets of the runs"""
    examples: Annotated[int, Field(ge=0, le=100)] = 8
    """queries shown with their results"""
    thumbnail: Annotated[int, Field(ge=32, le=512)] = 128
    """pixels of a picture's longer side"""
    sweeps: dict[Name, SweepNode] = Field(default_factory=dict)
    """by name, see below"""
    audits: list[str] = Field(default_factory=list)
    """runs whose ``vse-pipe audit`` it shows"""
    localized: list[str] = Field(default_factory=list)
    """runs on regions whose ``vse-pipe localize`` it shows"""
    claims: str | None = None
    """a file of claims to judge by the runs, from the project's root, or ``papers``"""


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
    trackers: dict[str, dict] = Field(default_factory=dict)


class Measuring(Strict):
    """What --set may change where vectors come from files and there is no params.yaml;"""

    seed: Seed = 1
    """of the bootstrap"""
    evaluate: EvaluateParams = Field(default_factory=EvaluateParams)
    engine: EngineParams = Field(default_factory=EngineParams)
    inference: dict[str, dict] = Field(default_factory=dict)
