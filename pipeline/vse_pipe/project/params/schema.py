"""The sections of params.yaml, and the whole file. The docstring under a field explains its key."""

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from vse_pipe.core.strict import Digest, Strict, Width, in_words, invalid
from vse_pipe.project import paths, registry
from vse_pipe.project.params.nodes import (
    DISTINCT,
    Dataset,
    DatasetName,
    EngineParams,
    EntryName,
    FeatureSet,
    Model,
    Name,
    NoiseNode,
    RunNode,
    Seed,
    TeacherNode,
    TextSet,
)
from vse_pipe.project.registry import Family, check_criterion

# Options that change no weight of a model.
NO_WEIGHT = {"processes", "stop_when_dead"}


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
    """``steps``: a tenth every ``lr_update`` epochs; ``cosine``: half a cosine in all"""
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
    """decay of a moving average of the weights, such as 0.999, which replaces them; null: none"""
    patience: PositiveInt | None = None
    """epochs without a rise of validation rsum before training ends; null: never"""
    grad_clip: PositiveFloat = 2.0
    """largest norm of all gradients together"""
    embed_size: Width = 1024
    """dimensions of the joint space"""
    val_images: PositiveInt = 1000
    """validation images that choose the best epoch, the first ones"""
    mask_same_image: bool = False
    """captions of one image are no negatives of each other"""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """bfloat16 computes the products of a step in bfloat16 (autocast; GRUs on a GPU in tf32); tf32,
    of NVIDIA GPUs, rounds their factors to 10 bits; weights stay float32"""
    chunk: NonNegativeInt = 0
    """pairs encoded at once (gradient caching: less memory, more time); 0: the batch"""
    processes: PositiveInt = 1
    """processes that train one run, on a GPU each if possible; equal up to rounding and
    dropout"""
    stop_when_dead: bool = True
    """ends a run with status 1 when validation is at chance and no gradient is left"""

    @field_validator("warm_up")
    @classmethod
    def _leaves_epochs(cls, warm_up: float, info: ValidationInfo) -> float:
        if warm_up >= info.data.get("epochs", warm_up + 1):
            raise ValueError(f"{warm_up:g} epochs leave none of train.epochs {info.data['epochs']}")
        return warm_up


# Name of the words' scorer among the runs of an ensemble.
BM25 = "bm25"
Rule = Literal["mean", "rrf"]


class EnsembleNode(Strict):
    """ensembles.<name>: runs of one data set that are evaluated as one model."""

    runs: Annotated[list[str], EntryName("run", "models", besides=BM25), Field(min_length=1), DISTINCT]
    """names under runs; a run with seeds stands for all its models; ``bm25`` ranks by words, where
    images have several captions"""
    weights: list[NonNegativeFloat] | None = None
    """proportions of the models whose scores are joined, in the order of ``runs``; null: equal"""
    rule: Rule = "mean"
    """mean of the scores, or of 1 / (60 + rank) (``rrf``)"""
    rescore: PositiveInt | None = None
    """the first run finds this many items of each query, and the others together order them"""
    row: str | None = None
    """row of a paper's table that it repeats"""

    @field_validator("weights")
    @classmethod
    def _count(cls, weights: list[float] | None) -> list[float] | None:
        if weights is not None and not any(weights):
            raise ValueError("all are 0; at least one run must count")
        return weights

    @property
    def members(self) -> tuple[str, ...]:
        """The trained runs, in order."""
        return tuple(run for run in self.runs if run != BM25)

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights of the models whose scores are joined, with a sum of 1."""
        weights = self.weights or [1.0] * (len(self.runs) - (self.rescore is not None))
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def is_comparable(self) -> bool:
        """Are scores of different queries on one scale? Ranks and rescored candidates are not."""
        return self.rule == "mean" and self.rescore is None

    @property
    def entry(self) -> dict:
        """``ensemble`` in an evaluation's metrics.json."""
        weights = [round(share, 6) for share in self.shares]
        return {"runs": self.runs, "weights": weights, "rule": self.rule, "rescore": self.rescore}


class TransferNode(Strict):
    """transfers.<name>: a run that is embedded and measured on a data set it was not trained on."""

    run: Model
    """a name under runs; a run with seeds stands for all its models"""
    dataset: DatasetName
    """a name under datasets"""
    features: Annotated[str, EntryName("features", "features", of_dataset=True)]
    """features of that data set, with the backbone and options of the run's"""
    bank: str | None = None
    """data set whose split ``evaluate.bank`` train or val means; null: this one"""


class EvaluateParams(Strict):
    """evaluate: the protocol every run is measured under."""

    split: Literal["test", "val"] = "test"
    """split of queries and gallery"""
    protocol: Literal["full", "folds", "first"] = "full"
    """the whole split, the mean over folds of fold_size images, or the first such fold"""
    fold_size: PositiveInt = 1000
    """images of a fold"""
    ties: Literal["pessimistic", "optimistic"] = "pessimistic"
    """place of a correct item that scores like wrong ones: the last or the first"""
    bank: str = "test"
    """queries that correct hubs: ``test``, the ranked ones (transductive, the papers' protocol);
    inductive: ``train`` or ``val`` of the run, or a folder with images.parquet and captions.parquet
    of the same model"""
    recall: list[PositiveInt] = Field(default_factory=lambda: [1, 5, 10])
    """K of R@K; 1, 5 and 10 are always measured, matchings have no others"""
    ndcg: list[PositiveInt] = Field(default_factory=lambda: [10])
    """K of nDCG@K; 10 is always measured"""
    judgements: str | dict[str, str] | None = None
    """file of image_id, caption_id and grade by people, from the project's root, measured beside
    recall; for several data sets a mapping from name to file"""
    correct_above: NonNegativeFloat = 0.0
    """pairs of a larger mean grade in ``judgements`` or ``--trec-run`` are correct"""
    sha256: dict[str, Digest] = Field(default_factory=dict)
    """required digests of the files of ``judgements``, by path"""
    tune: bool = False
    """chooses the criteria's parameters on val"""
    memory: PositiveInt = 4096
    """MiB of scores and working copies, and of the content of ``--images`` and the like"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap behind the 95% intervals; 0 leaves them out"""

    @property
    def by_dataset(self) -> dict[str, str]:
        """The files of judgements by data set, where they name data sets."""
        return self.judgements if isinstance(self.judgements, dict) else {}

    def for_dataset(self, dataset: str) -> Self:
        """The options with the judgements of one data set."""
        files = self.by_dataset
        return self.model_copy(update={"judgements": files.get(dataset)}) if files else self


class EmbedParams(Strict):
    """embed: what is exported of every run."""

    splits: Annotated[list[Literal["train", "val", "test", "proposal"]], Field(min_length=1)] | None = None
    """splits to embed; null: all, or val and test for models that compare fragments"""
    dim: PositiveInt | None = None
    """only the first dimensions of vectors, as ``matryoshka`` trains them; null: all"""
    memory: PositiveInt = 4096
    """MiB of vectors in memory; another size can change last bits of captions"""


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


EPOCH = "epoch"


class SweepNode(Strict):
    """report.sweeps.<name>: runs that differ in one value, drawn against it."""

    x: str
    """address inside a run, such as ``loss.k``; ``epoch`` draws learning curves"""
    runs: Annotated[list[str], EntryName("run", "models"), Field(min_length=1), DISTINCT]
    """points, or lines of the curves"""
    baselines: Annotated[list[str], EntryName("run", "models"), DISTINCT] = Field(default_factory=list)
    """runs drawn as level lines, not beside learning curves"""
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
    audits: Annotated[list[str], EntryName("run", "runs"), DISTINCT] = Field(default_factory=list)
    """runs whose audit is shown"""
    cleaning: dict[Name, Name] = Field(default_factory=dict)
    """pairs that are audited without a run and whose audit is shown: ``{noise: its data set}``"""
    localized: Annotated[list[str], EntryName("run", "runs"), DISTINCT] = Field(default_factory=list)
    """runs on regions whose localisation is shown"""
    claims: str | None = None
    """file of claims to judge, from the project's root, or ``papers``"""


class GridParams(Strict):
    """grid: which criteria rank every run."""

    inferences: list[Annotated[str, AfterValidator(check_criterion)]] = Field(min_length=1)
    """members of the family inference, or ``rescoring+matching``"""


def _options_of(family: Family) -> AfterValidator:
    """The validator of a section with options of members."""

    def check(section: dict[str, dict]) -> dict[str, dict]:
        for name, values in section.items():
            try:
                family.read(name, values)
            except ValidationError as error:
                raise invalid([((name, *place), text) for place, text in in_words(error)]) from error
        return section

    return AfterValidator(check)


class Root(Strict):
    """The whole file."""

    seed: Seed
    grid: GridParams
    datasets: dict[Name, Dataset]
    features: dict[Name, FeatureSet]
    texts: dict[Name, TextSet]
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
    loss: Annotated[dict[str, dict], _options_of(registry.LOSSES)] = Field(default_factory=dict)
    scheme: Annotated[dict[str, dict], _options_of(registry.SCHEMES)] = Field(default_factory=dict)
    sampler: Annotated[dict[str, dict], _options_of(registry.SAMPLERS)] = Field(default_factory=dict)
    similarity: Annotated[dict[str, dict], _options_of(registry.SIMILARITIES)] = Field(default_factory=dict)
    text: Annotated[dict[str, dict], _options_of(registry.TEXT_ENCODERS)] = Field(default_factory=dict)
    image: Annotated[dict[str, dict], _options_of(registry.IMAGE_ENCODERS)] = Field(default_factory=dict)
    inference: Annotated[dict[str, dict], _options_of(registry.INFERENCES)] = Field(default_factory=dict)

    @property
    def pairs(self) -> dict[str, NoiseNode | TeacherNode]:
        """What ``noise`` of a run or teacher may name."""
        return {**self.noises, **self.teachers}

    @property
    def models(self) -> dict[str, RunNode]:
        """The runs by name, and each seed of a run by the name of its model."""
        seeds = [(name, seed) for name, run in self.runs.items() for seed in run.seeds or ()]
        return {**self.runs, **{paths.seed_run(name, seed): self.runs[name] for name, seed in seeds}}


class Measuring(Strict):
    """The parameters that --set may change if vectors come from files, without params.yaml."""

    seed: Seed = 1
    """of the bootstrap"""
    evaluate: EvaluateParams = Field(default_factory=EvaluateParams)
    inference: Annotated[dict[str, dict], _options_of(registry.INFERENCES)] = Field(default_factory=dict)
