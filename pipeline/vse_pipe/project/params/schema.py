"""The models of params.yaml. The docstring under a field explains its key."""

from typing import Annotated, Literal, Self

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

from vse_pipe.core.strict import Digest, Strict, Width
from vse_pipe.project.engines.options import EngineParams

Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _distinct(seeds: list[int]) -> list[int]:
    repeated = [seed for index, seed in enumerate(seeds) if seed in seeds[:index]]
    if repeated:
        raise ValueError(f"seed {repeated[0]} is named twice; the second result would be the first one again")
    return seeds


Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_distinct)]


# Options that change no weight of a model.
NO_WEIGHT = {"processes", "stop_when_dead", "keep_state", "keep_on_device"}


class TrainParams(Strict):
    """train: how every run is optimised; ``runs.<name>.train`` overrides single values."""

    epochs: PositiveInt = 30
    """passes over all training pairs"""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """pairs of a batch"""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam with default betas, or gradient descent with momentum"""
    lr: PositiveFloat = 2e-4
    """highest learning rate"""
    schedule: Literal["steps", "cosine"] = "steps"
    """``steps``: a tenth every ``lr_update`` epochs; ``cosine``: half a cosine over all epochs, with every step"""
    lr_update: PositiveInt = 15
    """for ``steps``: epochs between two falls"""
    final: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """for ``cosine``: share of the rate at the end"""
    warm_up: NonNegativeFloat = 0.0
    """epochs (also fractions) in which the rate rises from 0 to ``lr``"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """of sgd"""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty"""
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """decay of a moving average of the weights, such as 0.999; it is validated and exported in place of the weights;
    null: none"""
    patience: PositiveInt | None = None
    """epochs without a rise of validation rsum after which training ends; null: it always runs ``epochs``"""
    grad_clip: PositiveFloat = 2.0
    """largest norm of all gradients together"""
    embed_size: Width = 1024
    """dimensions of the joint space"""
    val_images: PositiveInt = 1000
    """validation images that choose the best epoch, the first ones"""
    mask_same_image: bool = False
    """captions of one image are no negatives of each other"""
    same_text: bool = False
    """captions that read alike are one text that matches all their images; phrases of regions always are"""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """bfloat16 computes the products of a step in bfloat16 (autocast); tf32, of NVIDIA GPUs, rounds their factors to 10
    bits; weights stay float32"""
    chunk: NonNegativeInt = 0
    """pairs encoded at once: less memory by gradient caching, for a second forward pass; 0: the whole batch"""
    processes: PositiveInt = 1
    """processes of this machine that train one run together, each on its own GPU where possible; the result is that of
    one process up to rounding"""
    stop_when_dead: bool = True
    """ends a run with status 1 when validation is at chance and no gradient is left"""
    keep_on_device: bool = False
    """copies all features to the device once, where they must fit, instead of each batch's"""
    keep_state: bool = False
    """keeps last/state.safetensors of a finished run (last weights and moments, four fifths of its size); no command
    reads it"""


# Name of the words' scorer among the runs of an ensemble.
BM25 = "bm25"
Rule = Literal["mean", "rrf"]


class EnsembleNode(Strict):
    """ensembles.<name>: runs of one data set that are evaluated as one model."""

    runs: Annotated[list[str], Field(min_length=1)]
    """names under runs; a run with seeds stands for all its models; ``bm25`` ranks by words, where images have several
    captions"""
    weights: list[NonNegativeFloat] | None = None
    """proportions of the models whose scores are joined, in the order of ``runs``; null: equal"""
    rule: Rule = "mean"
    """mean of the scores, or of 1 / (60 + rank) (``rrf``)"""
    rescore: PositiveInt | None = None
    """the first run finds this many items of each query, and the others together order them"""
    row: str | None = None
    """row of a paper's table that it repeats"""

    @property
    def members(self) -> tuple[str, ...]:
        """The trained runs, in order."""
        return tuple(run for run in self.runs if run != BM25)

    @property
    def count(self) -> int:
        """Models whose scores are joined."""
        return len(self.runs) - (self.rescore is not None)

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights with a sum of 1."""
        weights = self.weights or [1.0] * self.count
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def entry(self) -> dict:
        """``ensemble`` in an evaluation's metrics.json."""
        weights = [round(share, 6) for share in self.shares]
        return {"runs": list(self.runs), "weights": weights, "rule": self.rule, "rescore": self.rescore}


class TransferNode(Strict):
    """transfers.<name>: a run that is embedded and measured on a data set it was not trained on."""

    run: str
    """a name under runs; a run with seeds stands for all its models"""
    dataset: str
    """a name under datasets"""
    features: str | None = None
    """features of that data set; null: those with the run's backbone and options"""
    bank: str | None = None
    """data set whose split ``evaluate.bank`` train or val means; null: this one"""

    def tells(self, entry: object) -> bool:
        """Whether ``transfer`` in an evaluation's metrics.json belongs to this entry."""
        return isinstance(entry, dict) and (entry.get("run"), entry.get("dataset")) == (self.run, self.dataset)


# Files about a data set beside its captions.
BESIDE = ("judgements", "labels", "groups")


class EvaluateParams(Strict):
    """evaluate: the protocol every run is measured under."""

    split: Literal["test", "val"] = "test"
    """split of queries and gallery"""
    protocol: Literal["full", "folds", "first"] = "full"
    """the whole split, the mean over folds of fold_size images, or the first such fold"""
    fold_size: PositiveInt = 1000
    """images of a fold"""
    ties: Literal["pessimistic", "average", "optimistic"] = "pessimistic"
    """place of a correct item that scores like wrong ones: the last, the mean or the first of them"""
    bank: str = "test"
    """queries that correct hubs: ``test``, the ranked ones (transductive, the papers' protocol); inductive: ``train``
    or ``val`` of the run, or a folder with images.parquet and captions.parquet of the same model"""
    recall: list[PositiveInt] = Field(default_factory=lambda: [1, 5, 10])
    """K of R@K; 1, 5 and 10 are always measured, matchings have no others"""
    ndcg: list[PositiveInt] = Field(default_factory=lambda: [10])
    """K of nDCG@K; 10 is always measured"""
    judgements: str | dict[str, str] | None = None
    """file of image_id, caption_id and grade by people, from the project's root, measured beside recall; for several
    data sets a mapping from name to file"""
    correct_above: NonNegativeFloat = 0.0
    """pairs of a larger mean grade in ``judgements``, or of a larger relevance for ``--trec-run``, are correct"""
    labels: str | dict[str, str] | None = None
    """file of image_id and label, such as objects in a picture, for PMRP; or a mapping as for ``judgements``"""
    by: str | None = None
    """column that groups the queries, with figures of each: of captions.parquet, ``length`` (words), or of ``groups``"""
    groups: str | dict[str, str] | None = None
    """file of caption_id and further columns for ``by``, such as a language; or a mapping as for ``judgements``"""
    sha256: dict[str, Digest] = Field(default_factory=dict)
    """required digests of the files of ``judgements``, ``labels`` and ``groups``, by path"""
    tune: bool = False
    """chooses the criteria's parameters on val"""
    calibrate: Literal["none", "isotonic", "platt"] = "none"
    """method that fits the probability of a match to scores on val and measures it on ``split``; for ``none``,
    ``search`` takes ``isotonic``"""
    memory: PositiveInt = 4096
    """MiB of scores and working copies, and of the content of ``--images`` and the like"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap behind the 95% intervals; 0 leaves them out"""

    def for_dataset(self, dataset: str) -> Self:
        """The options with the files of one data set."""
        files = {key: value.get(dataset) for key in BESIDE if isinstance(value := getattr(self, key), dict)}
        return self.model_copy(update=files)


# Endings that the pipeline appends to a node's folder.
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
    decisions: str | None = None
    """decisions.csv about images, captions, duplicates, leaks, and pairs of val and test, relative to the project or
    absolute; it may change at any time"""


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
    seed: Seed | None = None
    """of the draw; null: the project's"""
    seeds: Seeds | None = None
    """one draw a seed, for runs with seeds among these: the model of a seed learns from the draw of this seed, so that
    intervals hold the chance of the draw too"""


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
    dim: PositiveInt | None = None
    """only the first dimensions of each vector, scaled to length 1, as scheme ``matryoshka`` trains them; null: all"""
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
    cleaning: dict[Name, Name] = Field(default_factory=dict)
    """pairs that are audited without a run and whose audit is shown: ``{noise: its data set}``"""
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
    """The parameters that --set may change if vectors come from files, without params.yaml."""

    seed: Seed = 1
    """of the bootstrap"""
    evaluate: EvaluateParams = Field(default_factory=EvaluateParams)
    engine: EngineParams = Field(default_factory=EngineParams)
    inference: dict[str, dict] = Field(default_factory=dict)
