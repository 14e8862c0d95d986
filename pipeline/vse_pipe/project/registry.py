"""What a member says of itself beside its options: one class a family, whose defaults hold for members that say nothing.

A member exports ``TRAITS``; ``Family.traits`` reads it. Nothing here imports torch.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from vse_pipe.core.errors import UnknownMember, unknown


@dataclass(frozen=True)
class Traits:
    """Of families whose members have nothing to say."""


@dataclass(frozen=True)
class FormatTraits(Traits):
    """knows_truth: False where nobody knows which train pairs match; proposes: its options ``proposals`` and ``options`` name
    a way to propose boxes and its options."""

    knows_truth: bool = True
    proposes: bool = False


@dataclass(frozen=True)
class ProposalTraits(Traits):
    """threads: False where one picture keeps all cores busy."""

    threads: bool = True


@dataclass(frozen=True)
class BackboneTraits(Traits):
    """trainable: it is a network that makes features of images, so that an image encoder can hold it and train it; by_content:
    False where the features follow from more than the picture, such as its name; alone: each image is computed by itself,
    whatever else is in its batch."""

    trainable: bool = False
    by_content: bool = True
    alone: bool = False


@dataclass(frozen=True)
class TextFeatureTraits(Traits):
    """gives: what the text encoder reads, token ids, a vector each or a vector a token; libraries: whose versions the texts depend on; terms:
    it has a function ``terms``, the words of a caption that it knows; mixes: it is made of other methods, its option ``parts``;
    extra: of this package, that brings the libraries, where it is not called after the method."""

    gives: Literal["tokens", "vectors", "fragments"] = "vectors"
    libraries: tuple[str, ...] = ()
    terms: bool = False
    mixes: bool = False
    extra: str = ""


@dataclass(frozen=True)
class ProtocolTraits(Traits):
    """decides_by: what the member's ``corrupt`` is given, a rate, the array of an index file or nothing; knows_truth: False
    where nobody knows which train pairs match."""

    decides_by: Literal["rate", "index", "nothing"] = "rate"
    knows_truth: bool = True


@dataclass(frozen=True)
class LossTraits(Traits):
    """similarities: those it works with, None for all; above_zero: a pair learns only while its similarity is above 0;
    stuck: it has a function ``stuck``, which tells whether training ended at a point from which the loss does not move;
    learns: it has a function ``network``, which makes what is trained with the model, or nothing, and takes that as a third
    argument."""

    similarities: tuple[str, ...] | None = None
    above_zero: bool = False
    stuck: bool = False
    learns: bool = False


@dataclass(frozen=True)
class SchemeTraits(Traits):
    """losses, similarities: those it works with, None for all; parts: batches that one batch of the sampler becomes;
    regions: it needs a data set of regions, with the proposals of its training pictures; teacher: it learns from models that
    are trained already, ``noise`` of the run being an entry of teachers; trains: False where it has a function
    ``untrained`` in place of a scheme: the model is taken as it is made, of encoders that learn nothing."""

    losses: tuple[str, ...] | None = None
    similarities: tuple[str, ...] | None = None
    parts: int = 1
    regions: bool = False
    teacher: bool = False
    trains: bool = True


@dataclass(frozen=True)
class SimilarityTraits(Traits):
    """fragments: it compares regions with words, and has a function ``pairs``, which scores single pairs; learns: it has a function ``network``, which makes what it learns; above_zero:
    False where 0 is the largest value it takes."""

    fragments: bool = False
    learns: bool = False
    above_zero: bool = True


@dataclass(frozen=True)
class TextEncoderTraits(Traits):
    """reads: of texts, token ids, a vector each or a vector a token; words: it also gives a vector for each word; vectors: its table of words,
    ``embed``, can start from a file, as its options ``vectors``, ``words`` and ``freeze_vectors`` say; learns: it has weights."""

    reads: Literal["tokens", "vectors", "fragments"] = "tokens"
    words: bool = False
    vectors: bool = False
    learns: bool = True


@dataclass(frozen=True)
class ImageEncoderTraits(Traits):
    """reads: stored features, or pixels through a network of its own; regions: it gives a vector for each region; learns: it has
    weights."""

    reads: Literal["features", "pixels"] = "features"
    regions: bool = False
    learns: bool = True


@dataclass(frozen=True)
class CriterionTraits(Traits):
    """matches: it makes a matching, not scores; item_bias: it has a function ``item_bias``, the whole correction as one
    number an item; comparable_rows: scores of different queries are on one scale, which a matching needs."""

    matches: bool = False
    item_bias: bool = False
    comparable_rows: bool = True


Kind = TypeVar("Kind", bound=Traits)

# Modules of a family's folder that are no members.
_BESIDE = ("options",)


@dataclass(frozen=True)
class Family(Generic[Kind]):
    """The members in one package folder: a module a member, and ``options`` with a class of options for each.

    kind: the word used in messages ("loss"); package: dotted name of the folder; defaults: the traits of a member whose
    class of options has none; renamed: former and present names of members, for messages. The options of ``hal_emnlp`` are
    the class ``HalEmnlpOptions``; its attribute ``traits`` holds the member's traits. A module is imported when it is first
    needed, and ``options`` imports no torch.
    """

    kind: str
    package: str
    defaults: Kind
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        return Path(__file__).parents[1].joinpath(*self.package.split(".")[1:])

    def names(self) -> list[str]:
        return [*_names(self.folder, self.folder.stat().st_mtime_ns)]

    def check(self, name: str) -> str:
        """``name`` if it is a member. Raises UnknownMember with the near miss and the whole list."""
        known = self.names()
        if name in known:
            return name
        for former, present in self.renamed:
            if name == former:
                raise UnknownMember(f"{self.kind} '{former}' is now called '{present}'; write '{present}'")
        member, colon, model = name.partition(":")
        if colon and member in known and "model" in self.options(member).model_fields:
            raise UnknownMember(f"unknown {self.kind} '{name}'; write '{member}', and beside it the key model: {model}")
        raise UnknownMember(unknown(self.kind, name, known))

    def options(self, name: str) -> type[Any]:
        """The member's class of options, a ``Strict``; torch is not imported for it."""
        options: type[Any] = getattr(importlib.import_module(self.page), options_class(self.check(name)))
        return options

    def traits(self, name: str) -> Kind:
        """The traits of the member, or the defaults of the family where it has none."""
        traits: Kind = getattr(self.options(name), "traits", self.defaults)
        return traits

    def load(self, name: str) -> ModuleType:
        """The module that does the work."""
        return importlib.import_module(self.module(name))

    def module(self, name: str) -> str:
        """The dotted name of the member's module."""
        return f"{self.package}.{self.check(name)}"

    @property
    def page(self) -> str:
        """The dotted name of the module with the options."""
        return f"{self.package}.options"


def options_class(member: str) -> str:
    """The name of a member's class of options: ``HalEmnlpOptions`` for ``hal_emnlp``."""
    return "".join(word.capitalize() for word in member.split("_")) + "Options"


@cache
def _names(folder: Path, changed: int) -> tuple[str, ...]:
    """The members of a folder; ``changed``, when the folder last changed, keeps the cache up to date."""
    names = (module.name for module in pkgutil.iter_modules([str(folder)]))
    return tuple(sorted(name for name in names if name not in _BESIDE and not name.startswith("_")))


FORMATS = Family("format", "vse_pipe.prepare.formats", FormatTraits())
PROPOSALS = Family("proposals", "vse_pipe.prepare.proposals", ProposalTraits())
BACKBONES = Family("backbone", "vse_pipe.extract.backbones", BackboneTraits())
ENGINES = Family("engine", "vse_pipe.project.engines", Traits())
TEXT_FEATURES = Family("text features", "vse_pipe.extract.texts", TextFeatureTraits())
PROTOCOLS = Family("noise protocol", "vse_pipe.inject.protocols", ProtocolTraits())
LOSSES = Family("loss", "vse_pipe.train.losses", LossTraits())
SCHEMES = Family("scheme", "vse_pipe.train.schemes", SchemeTraits(), renamed=(("none", "zero_shot"),))
SAMPLERS = Family("sampler", "vse_pipe.train.samplers", Traits())
SIMILARITIES = Family("similarity", "vse_pipe.ranking.similarities", SimilarityTraits())
TEXT_ENCODERS = Family("text encoder", "vse_pipe.train.encoders.text", TextEncoderTraits())
IMAGE_ENCODERS = Family("image encoder", "vse_pipe.train.encoders.image", ImageEncoderTraits())
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
