"""The named entries of params.yaml that are stages of their own: data sets, features, texts,
noises, teachers, runs. The docstring under a field explains its key."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from vse_pipe.core.errors import UnknownMember
from vse_pipe.core.strict import Strict, invalid
from vse_pipe.project import registry
from vse_pipe.project.registry import Family, Member

Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _distinct(values: list) -> list:
    repeated = [value for index, value in enumerate(values) if value in values[:index]]
    if repeated:
        raise ValueError(f"{repeated[0]!r} is named twice")
    return values


DISTINCT = AfterValidator(_distinct)
Seeds = Annotated[list[Seed], Field(min_length=1), DISTINCT]


@dataclass(frozen=True)
class EntryName:
    """Metadata of a field whose value, or each of its values, names an entry of params.yaml.

    kind: the word in messages; entries: attribute of ``Root`` with the entries by name; of_dataset:
    the entry must belong to the same data set; besides: another value.
    """

    kind: str
    entries: str
    of_dataset: bool = False
    besides: str | None = None


DatasetName = Annotated[str, EntryName("data set", "datasets")]
Model = Annotated[str, EntryName("run", "models")]


# Endings of the files and folders that lie beside an output while it is written, and of its seconds.
_ENDINGS = r"(?<!\.partial)(?<!\.lock)(?<!\.json)"
Name = Annotated[str, StringConstraints(pattern=re.compile(rf"^[A-Za-z0-9][A-Za-z0-9_.+-]*{_ENDINGS}\Z"))]


# A member with its options; in params.yaml its name, with the options beside it.
MemberName = Annotated[Member, WithJsonSchema({"type": "string"})]


class OpenNode(Strict):
    """A node whose further keys are the options of the member that its field ``_key`` names."""

    _family: ClassVar[Family]
    _key: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _read_member(cls, values: Any) -> Any:
        name = values.get(cls._key) if isinstance(values, dict) else None
        if not isinstance(name, str):
            return values
        options = {key: value for key, value in values.items() if key not in cls.model_fields}
        try:
            member = Member(cls._family.check(name), cls._family.read(name, options))
        except UnknownMember as error:
            raise invalid([((cls._key,), str(error))]) from error
        return {**{key: values[key] for key in values.keys() - options.keys()}, cls._key: member}


class Dataset(OpenNode):
    """datasets.<name>: a data set and its format, whose options are further keys."""

    _family = registry.FORMATS
    _key = "format"

    format: MemberName
    """layout of the files"""
    source: str
    """their place, relative to the project or absolute"""
    on_error: Literal["fail", "skip"] = "fail"
    """at missing or damaged images ``prepare`` and ``extract`` stop, or leave them out"""
    memory: PositiveInt = 4096
    """MiB of captions, and of pictures in Parquet files, while ``prepare`` reads them"""
    decisions: str | None = None
    """decisions.csv about images, captions, duplicates, leaks, and pairs of val and test, relative
    to the project or absolute; it may change at any time"""


class FeatureSet(OpenNode):
    """features.<name>: a feature file of a data set. Further keys: of the backbone."""

    _family = registry.BACKBONES
    _key = "backbone"

    dataset: DatasetName
    """a name under datasets"""
    backbone: MemberName
    """member that computes the features"""
    max_errors: NonNegativeFloat = 0.01
    """images left out beside those of ``prepare``: a number, or below 1 a share"""


class TextSet(OpenNode):
    """texts.<name>: what the text encoders read of the captions of one data set, token ids or one
    vector each. Further keys are the options of the method."""

    _family = registry.TEXT_FEATURES
    _key = "method"

    dataset: DatasetName
    """a name under datasets"""
    method: MemberName
    """member that computes them"""


class NoiseNode(OpenNode):
    """noises.<name>: the pairs of one data set, with or without injected mismatches. Further keys
    are the options of the protocol."""

    _family = registry.PROTOCOLS
    _key = "protocol"

    dataset: DatasetName
    """a name under datasets"""
    protocol: MemberName
    """member that chooses the mismatched pairs"""
    seed: Seed | None = None
    """of the draw; null: the project's"""
    seeds: Seeds | None = None
    """one draw a seed, for runs with seeds among these: the model of a seed learns from the draw of
    this seed, so that intervals hold the chance of the draw too"""

    @field_validator("seeds")
    @classmethod
    def _replace_seed(cls, seeds: list[int] | None, info: ValidationInfo) -> list[int] | None:
        if seeds is not None and info.data.get("seed") is not None:
            raise ValueError("seeds gives a seed to each draw, and seed is given too; leave one of them out")
        return seeds


class TeacherNode(Strict):
    """teachers.<name>: pairs of a data set, with the similarities of a trained run."""

    dataset: DatasetName
    """a name under datasets"""
    noise: Annotated[str, EntryName("noise", "pairs", of_dataset=True)]
    """a noise, whose pairs these are, or another teacher, which teaches as well"""
    run: Annotated[str, EntryName("run", "models", of_dataset=True)]
    """a run that compares by cosine and has embedded train; all its seeds"""
    weight: PositiveFloat = 1.0
    """of its cosines in the mean over all teachers; only proportions count"""


FamilyKey = Literal["loss", "scheme", "similarity", "text", "image", "sampler"]


class RunNode(Strict):
    """runs.<name>: one model; every entry up to ``sampler`` names a node or a family's member."""

    dataset: DatasetName
    """under datasets"""
    features: Annotated[str, EntryName("features", "features", of_dataset=True)]
    """under features"""
    texts: Annotated[str, EntryName("texts", "texts", of_dataset=True)]
    """under texts"""
    noise: Annotated[str, EntryName("noise", "pairs", of_dataset=True)]
    """under noises, or under teachers for a scheme with a teacher"""
    loss: Annotated[str, registry.LOSSES.member]
    """member of the family"""
    scheme: Annotated[str, registry.SCHEMES.member]
    """member of the family"""
    similarity: Annotated[str, registry.SIMILARITIES.member]
    """member of the family"""
    text: Annotated[str, registry.TEXT_ENCODERS.member]
    """encoder of the side"""
    image: Annotated[str, registry.IMAGE_ENCODERS.member]
    """encoder of the side"""
    sampler: Annotated[str, registry.SAMPLERS.member] = "captions"
    """member that makes the batches"""
    row: str | None = None
    """row of a paper, such as ``hal-aaai2020 2.12``; the report shows both figures"""
    options: dict[FamilyKey, dict] = Field(default_factory=dict)
    """options of this run's members by family, such as ``{loss: {gamma: 60}}``"""
    train: dict = Field(default_factory=dict)
    """values that override the section train"""
    seeds: Seeds | None = None
    """one model a seed, such as ``[1, 2, 3]``, as mean and spread; null: one model"""


LOCAL: Literal["local"] = "local"


class EngineParams(Strict):
    """engine: the processes that extract features of pictures."""

    name: Literal["local", "ray"] = LOCAL
    """``local``: the process of the command; ``ray``: workers of a Ray cluster"""
    workers: PositiveInt = 1
    """number of Ray's processes"""
    address: str = LOCAL
    """of Ray's cluster; ``auto``: of this node; ``local``: one that ends with the command"""
