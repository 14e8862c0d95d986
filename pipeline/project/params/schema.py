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

from pipeline.core.strict import Strict, Width

# What the pipeline appends to a node's folder while it is written, locked and timed.
_ENDINGS = (".partial", ".lock", ".timing.json")


def _no_ending_of_ours(name: str) -> str:
    for ending in _ENDINGS:
        if name.endswith(ending):
            raise ValueError(
                f"a name must not end in {ending}: files of the node '{name[: -len(ending)]}' do"
            )
    return name


Name = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"), AfterValidator(_no_ending_of_ours)
]
OnError = Literal["fail", "skip"]


def _a_count_or_a_share(most: float) -> float:
    if most > 1 and most != int(most):
        raise ValueError("expected a whole number of images, or a share below 1")
    return most


Limit = Annotated[NonNegativeFloat, AfterValidator(_a_count_or_a_share)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class _Open(Strict):
    """A node whose further keys are the options of the member it names; those are checked by the member."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)


class DatasetNode(_Open):
    """datasets.<name>: a data set and the format it is read with.

    format: how the files are laid out; source: where they are, relative to the project or absolute; on_error: whether
    ``prepare`` stops at images that are missing or do not decode, or leaves them to ``extract``. Further keys are the
    options of the format.
    """

    format: str
    source: str
    on_error: OnError = "fail"


class FeaturesNode(_Open):
    """features.<name>: one feature file of one data set.

    dataset: a name under datasets; backbone: what computes the features. on_error: ``skip`` leaves images that cannot be
    read out and records them, ``fail`` stops at the first. max_errors: how many may be left out, a number of images, or
    below 1 a share of them (rounded up). Further keys are the options of the backbone.
    """

    dataset: str
    backbone: str
    on_error: OnError = "fail"
    max_errors: Limit = 0.01


class TextsNode(_Open):
    """texts.<name>: what the text encoders read of the captions of one data set, token ids or one vector each.

    dataset: a name under datasets; method: how they are computed. Further keys are the options of the method.
    """

    dataset: str
    method: str


class NoiseNode(_Open):
    """noises.<name>: the pairs of one data set, with or without injected mismatches.

    dataset: a name under datasets; protocol: which pairs are mismatched. Further keys are the options of the protocol.
    """

    dataset: str
    protocol: str


class TrainParams(Strict):
    """train: how every run is optimised; ``runs.<name>.train`` overrides single values.

    epochs: over all training pairs; batch_size: pairs of a batch. optimiser: Adam at its default betas, or plain descent
    with momentum. lr: the first rate; lr_update: epochs after which it falls to a tenth, again and again.
    momentum: of sgd, which the structure-preserving paper trains with. weight_decay: the L2 penalty; grad_clip: the
    largest norm of all gradients together; embed_size: dimensions of the joint space; val_images: the first so many
    validation images choose the best epoch. mask_same_image: captions of the same image are no
    negatives of each other. precision: bfloat16 runs the products of the step in bfloat16 (autocast), weights stay
    float32. chunk: pairs encoded at once; fewer than batch_size save memory by gradient caching, at the price of a
    second forward pass; 0: the whole batch.
    """

    epochs: PositiveInt = 30
    batch_size: Annotated[int, Field(ge=2)] = 128
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: PositiveFloat = 2e-4
    lr_update: PositiveInt = 15
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: NonNegativeFloat = 0.0
    grad_clip: PositiveFloat = 2.0
    embed_size: Width = 1024
    val_images: PositiveInt = 1000
    mask_same_image: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    chunk: NonNegativeInt = 0


class RunNode(Strict):
    """runs.<name>: one model; every entry up to ``sampler`` names a node or a family's member.

    dataset: under datasets; features: under features; texts: under texts; noise: under noises. loss, scheme, similarity:
    a member of the family of that name; text, image: the encoder of that side; sampler: what makes the batches. train: values on top of the
    section train. options: values for this run's members on top of the family sections, by family: ``{loss: {gamma: 60}}``. row: the row
    of a paper's table that this run repeats, for example ``hal-aaai2020 2.12``; the report sets the two side by side.
    """

    dataset: str
    features: str
    texts: str
    noise: str
    loss: str
    scheme: str
    similarity: str
    text: str
    image: str
    sampler: str = "captions"
    row: str | None = None
    options: dict[str, dict] = Field(default_factory=dict)
    train: dict = Field(default_factory=dict)


class EmbedParams(Strict):
    """embed: what is exported of every run. splits: whose images and captions are embedded; null: all, of models that
    compare fragments val and test.
    """

    splits: Annotated[list[Literal["train", "val", "test"]], Field(min_length=1)] | None = None


class EnsembleNode(Strict):
    """ensembles.<name>: two runs of one data set that are evaluated as one model, by the mean of their scores.

    first, second: names under runs; row: the row of a paper's table that it repeats, as of a run.
    """

    first: str
    second: str
    row: str | None = None


class EvaluateParams(Strict):
    """evaluate: the protocol every run is measured under.

    split: whose queries are ranked, in a gallery of the same split. ties: where a correct item scores like wrong ones, its
    place is the last of them, the mean or the first. fold_size: images of a fold.
    protocol: ``full``, the whole split; ``folds``, the mean over folds of fold_size images; ``first``, the first such fold.
    bank: whose queries correct the hubs: ``test``, the very queries that are ranked (transductive, the papers' protocol);
    ``train`` or ``val`` of the same run, or a folder with images.parquet and captions.parquet of the same model (inductive).
    tune: choose the criteria's parameters on val. memory: MiB that scores and working copies may take. resamples: of the
    bootstrap behind the 95% intervals; 0 leaves them out.
    """

    split: Literal["test", "val"] = "test"
    protocol: Literal["full", "folds", "first"] = "full"
    fold_size: PositiveInt = 1000
    ties: Literal["pessimistic", "average", "optimistic"] = "pessimistic"
    bank: str = "test"
    tune: bool = False
    memory: PositiveInt = 4096
    resamples: NonNegativeInt = 1000


class SweepNode(Strict):
    """report.sweeps.<name>: runs that differ in one value, drawn against it.

    x: the value's address inside a run, such as ``loss.k`` or ``train.batch_size``; ``epoch`` draws learning curves.
    runs: the points, or the lines of the curves; baselines: runs drawn as level lines; inference: the criterion whose rsum is shown; title: of the axis.
    """

    x: str
    runs: list[str] = Field(min_length=1)
    baselines: list[str] = Field(default_factory=list)
    inference: str = "nns"
    title: str = ""


class ReportParams(Strict):
    """report: what the page shows beside the tables. audits: runs whose ``vse-pipe audit`` it shows.

    title: of the page; examples: queries shown with their results; thumbnail: pixels of a picture's longer side;
    sweeps: by name, see below.
    """

    title: str = "vse-pipe report"
    examples: Annotated[int, Field(ge=0, le=100)] = 8
    thumbnail: Annotated[int, Field(ge=32, le=512)] = 128
    sweeps: dict[Name, SweepNode] = Field(default_factory=dict)
    audits: list[str] = Field(default_factory=list)


class GridParams(Strict):
    """grid: which criteria rank every run. inferences: members of the family inference, or ``rescoring+matching``."""

    inferences: list[str] = Field(min_length=1)


class Root(Strict):
    """The whole file. The family sections (loss, similarity, ...) are checked by the members they name."""

    seed: Seed
    grid: GridParams
    datasets: dict[Name, DatasetNode]
    features: dict[Name, FeaturesNode]
    texts: dict[Name, TextsNode]
    noises: dict[Name, NoiseNode]
    runs: dict[Name, RunNode]
    ensembles: dict[Name, EnsembleNode] = Field(default_factory=dict)
    train: TrainParams
    embed: EmbedParams = Field(default_factory=EmbedParams)
    evaluate: EvaluateParams
    report: ReportParams
    loss: dict[str, dict] = Field(default_factory=dict)
    scheme: dict[str, dict] = Field(default_factory=dict)
    sampler: dict[str, dict] = Field(default_factory=dict)
    similarity: dict[str, dict] = Field(default_factory=dict)
    text: dict[str, dict] = Field(default_factory=dict)
    image: dict[str, dict] = Field(default_factory=dict)
    inference: dict[str, dict] = Field(default_factory=dict)


class Measuring(Strict):
    """What --set may change where vectors come from files and there is no params.yaml; seed: of the bootstrap."""

    seed: Seed = 1
    evaluate: EvaluateParams = Field(default_factory=EvaluateParams)
    inference: dict[str, dict] = Field(default_factory=dict)
