"""Families and the traits of their members. A family's class of traits has the defaults of its
members. No import of torch."""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from vse_pipe.core.errors import UnknownMember, unknown


@dataclass(frozen=True)
class Traits:
    """The traits of families whose members have none."""


@dataclass(frozen=True)
class FormatTraits(Traits):
    """knows_truth: whether it is known which train pairs match; proposes: its options ``proposals``
    and ``options`` name a way to propose boxes, and its options."""

    knows_truth: bool = True
    proposes: bool = False


@dataclass(frozen=True)
class BackboneTraits(Traits):
    """trainable: it is a network of images that an image encoder can train; by_content: False if
    the features follow from more than the picture, such as its name; independent: features do not
    depend on the other images of a batch."""

    trainable: bool = False
    by_content: bool = True
    independent: bool = False


@dataclass(frozen=True)
class TextFeatureTraits(Traits):
    """gives: its output, token ids, a vector a caption or a vector a token; libraries: their
    versions matter for the texts; terms: its function ``terms`` gives the known words of a caption;
    mixes: it combines the methods in its option ``parts``."""

    gives: Literal["tokens", "vectors", "fragments"] = "vectors"
    libraries: tuple[str, ...] = ()
    terms: bool = False
    mixes: bool = False


@dataclass(frozen=True)
class ProtocolTraits(Traits):
    """decides: whether the member applies decisions on the pairs of the protocol in its option
    ``base``; knows_truth: whether it is known which train pairs match."""

    decides: bool = False
    knows_truth: bool = True


@dataclass(frozen=True)
class LossTraits(Traits):
    """similarities: those that it supports, None for all; above_zero: a pair learns only while its
    similarity is above 0; learns: its function ``network`` makes a module that is trained with the
    model, or None, and is the third argument of the loss; takes: what it uses of
    ``Scored.weights`` and ``Scored.targets``.
    """

    similarities: tuple[str, ...] | None = None
    above_zero: bool = False
    learns: bool = False
    takes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SchemeTraits(Traits):
    """losses, similarities: those that it supports, None for all; parts: number of batches made of
    a sampler's batch; regions: it needs a data set of regions with proposals in its training
    pictures; teacher: it learns from trained models, and ``noise`` of the run is an entry of
    teachers; trains: False if it has a function ``untrained`` instead, for encoders without
    weights; weighs: its loss gets the weights of pairs.parquet as targets."""

    losses: tuple[str, ...] | None = None
    similarities: tuple[str, ...] | None = None
    parts: int = 1
    regions: bool = False
    teacher: bool = False
    trains: bool = True
    weighs: bool = False


@dataclass(frozen=True)
class SimilarityTraits(Traits):
    """fragments: it compares regions with words, and its function ``regions`` tells how much each
    word has of each region; learns: its function ``network`` makes the module that it learns;
    above_zero: False if 0 is its largest value."""

    fragments: bool = False
    learns: bool = False
    above_zero: bool = True


@dataclass(frozen=True)
class TextEncoderTraits(Traits):
    """reads: token ids, a vector a caption or a vector a token; words: it also gives a vector for
    each word; vectors: its table of words ``embed`` can start from a file (option ``vectors``);
    learns: it has weights; backbones: its network is a side of the one behind the run's features,
    which these backbones have; methods: text features that it reads, None for all of its kind."""

    backbones: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    reads: Literal["tokens", "vectors", "fragments"] = "tokens"
    words: bool = False
    vectors: bool = False
    learns: bool = True


@dataclass(frozen=True)
class ImageEncoderTraits(Traits):
    """reads: features of one vector an image, features of regions, or pixels through its network;
    regions: it gives a vector for each region; learns: it has weights; backbones: those whose
    network it holds, None for all trainable ones."""

    backbones: tuple[str, ...] | None = None
    reads: Literal["vectors", "regions", "pixels"] = "vectors"
    regions: bool = False
    learns: bool = True


@dataclass(frozen=True)
class CriterionTraits(Traits):
    """matches: it makes a matching, not scores; item_bias: its function ``item_bias`` gives the
    whole correction as a number an item; comparable_rows: scores of different queries have one
    scale, which a matching needs."""

    matches: bool = False
    item_bias: bool = False
    comparable_rows: bool = True


@dataclass(frozen=True)
class Member:
    """A family's member by name. params: its validated options."""

    name: str
    params: Any


Kind = TypeVar("Kind", bound=Traits)


@dataclass(frozen=True)
class Family(Generic[Kind]):
    """The members in a package folder: a module for each, and ``options`` with a class of options
    for each.

    kind: the word in messages ("loss"); package: dotted name of the folder; defaults: the traits of
    a member whose class of options has none; side: ``image_`` or ``text_`` where two families share
    a folder: the members are those with a class of that side. The options of ``hal_emnlp`` are the
    class ``HalEmnlpOptions``; its attribute ``traits`` holds the member's traits. A module is
    imported at its first use, and ``options`` imports no torch.
    """

    kind: str
    package: str
    defaults: Kind
    side: str = ""

    @cached_property
    def folder(self) -> Path:
        return Path(__file__).parents[1].joinpath(*self.package.split(".")[1:])

    @cached_property
    def _names(self) -> list[str]:
        stems = sorted(path.stem for path in self.folder.glob("[!_]*.py") if path.stem != "options")
        if not self.side:
            return stems
        page = import_module(self.page)
        return [stem for stem in stems if hasattr(page, options_class(self.side + stem))]

    def names(self) -> list[str]:
        return list(self._names)

    def check(self, name: str) -> str:
        """``name`` if it is a member. Raises UnknownMember with the whole list."""
        if name not in self.names():
            raise UnknownMember(unknown(self.kind, name, self.names()))
        return name

    @cached_property
    def member(self) -> Any:
        """The validator of a field that names a member."""
        from pydantic import AfterValidator  # which completion in a shell has no time for

        return AfterValidator(self.check)

    def read(self, name: str, values: dict) -> Any:
        """The member's options. Raises ValidationError, in words, for an unknown member too."""
        from pydantic import ValidationError

        from vse_pipe.core.strict import in_words, invalid

        try:
            return self.options(name).model_validate(values)
        except UnknownMember as error:
            raise invalid([((), str(error))]) from error
        except ValidationError as error:
            raise invalid(in_words(error)) from error

    def options(self, name: str) -> type[Any]:
        """The member's class of options, a ``Strict``; torch is not imported for it."""
        options: type[Any] = getattr(import_module(self.page), options_class(self.side + self.check(name)))
        return options

    def traits(self, name: str) -> Kind:
        """The traits of the member, or the defaults of the family where it has none."""
        traits: Kind = getattr(self.options(name), "traits", self.defaults)
        return traits

    def load(self, name: str) -> ModuleType:
        """The module that does the work."""
        return import_module(self.module(name))

    def module(self, name: str) -> str:
        """The dotted name of the member's module."""
        return f"{self.package}.{self.check(name)}"

    @property
    def page(self) -> str:
        """The dotted name of the module with the options."""
        return f"{self.package}.options"


def options_class(member: str) -> str:
    """``HalEmnlpOptions`` for ``hal_emnlp``, ``ImagePooledOptions`` for ``image_pooled``."""
    return "".join(word.capitalize() for word in member.split("_")) + "Options"


FORMATS = Family("format", "vse_pipe.prepare.formats", FormatTraits())
PROPOSALS = Family("proposals", "vse_pipe.prepare.proposals", Traits())
BACKBONES = Family("backbone", "vse_pipe.extract.backbones", BackboneTraits())
TEXT_FEATURES = Family("text features", "vse_pipe.extract.texts", TextFeatureTraits())
PROTOCOLS = Family("noise protocol", "vse_pipe.inject.protocols", ProtocolTraits())
LOSSES = Family("loss", "vse_pipe.train.losses", LossTraits())
SCHEMES = Family("scheme", "vse_pipe.train.schemes", SchemeTraits())
SAMPLERS = Family("sampler", "vse_pipe.train.samplers", Traits())
SIMILARITIES = Family("similarity", "vse_pipe.ranking.similarities", SimilarityTraits())
TEXT_ENCODERS = Family("text encoder", "vse_pipe.train.encoders", TextEncoderTraits(), side="text_")
IMAGE_ENCODERS = Family("image encoder", "vse_pipe.train.encoders", ImageEncoderTraits(), side="image_")
INFERENCES = Family("inference criterion", "vse_pipe.ranking.inference", CriterionTraits())

# The members that make up a run, by their key under runs.<name>.
RUN_FAMILIES: dict[str, Family] = {
    "loss": LOSSES,
    "scheme": SCHEMES,
    "similarity": SIMILARITIES,
    "text": TEXT_ENCODERS,
    "image": IMAGE_ENCODERS,
    "sampler": SAMPLERS,
}


def criterion_parts(criterion: str) -> list[str]:
    """The members in a name of ``grid.inferences``: a criterion, or ``rescoring+matching``. Raises
    UnknownMember for parts that do not exist or fit together."""
    names = criterion.split("+")
    traits = [INFERENCES.traits(name) for name in names]
    if len(names) > 1 and ([trait.matches for trait in traits] != [False, True] or not traits[0].comparable_rows):
        text = "expected one, or a rescoring with scores of one scale before a matching, such as is+rgm"
        raise UnknownMember(f"inference criterion '{criterion}': {text}")
    return names


def ends_in_matching(criterion: str) -> bool:
    return INFERENCES.traits(criterion_parts(criterion)[-1]).matches


def check_criterion(criterion: str) -> str:
    """``criterion``. Raises as ``criterion_parts``."""
    criterion_parts(criterion)
    return criterion
