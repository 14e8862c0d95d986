"""A family is a folder of members; a member's name is that of its module, here, in params.yaml and on the command line."""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from vse_pipe.core.errors import UnknownMember, unknown
from vse_pipe.project.traits import (
    BackboneTraits,
    CriterionTraits,
    FormatTraits,
    ImageEncoderTraits,
    LossTraits,
    ProposalTraits,
    ProtocolTraits,
    SchemeTraits,
    SimilarityTraits,
    TextEncoderTraits,
    TextFeatureTraits,
    Traits,
)

Kind = TypeVar("Kind", bound=Traits)

# Modules of a family's folder that are no members.
_BESIDE = ("options",)


@dataclass(frozen=True)
class Family(Generic[Kind]):
    """The members in one package folder: a module a member, and ``options`` with a class of options for each.

    kind: the word used in messages ("loss"); package: dotted name of the folder; defaults: the traits of a member whose
    class of options has none. The options of ``hal_emnlp`` are the class ``HalEmnlpOptions``; its attribute ``traits``
    holds the member's traits. A module is imported when it is first needed, and ``options`` imports no torch.
    """

    kind: str
    package: str
    defaults: Kind

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
SCHEMES = Family("scheme", "vse_pipe.train.schemes", SchemeTraits())
SAMPLERS = Family("sampler", "vse_pipe.train.samplers", Traits())
SIMILARITIES = Family("similarity", "vse_pipe.ranking.similarities", SimilarityTraits())
TEXT_ENCODERS = Family("text encoder", "vse_pipe.train.encoders.text", TextEncoderTraits())
IMAGE_ENCODERS = Family("image encoder", "vse_pipe.train.encoders.image", ImageEncoderTraits())
INFERENCES = Family("inference criterion", "vse_pipe.ranking.inference", CriterionTraits())
SECTIONS = Family("section", "vse_pipe.report.sections", Traits())

# The members that make up a run, by their key under runs.<name>.
RUN_FAMILIES: dict[str, Family] = {
    "loss": LOSSES,
    "scheme": SCHEMES,
    "similarity": SIMILARITIES,
    "text": TEXT_ENCODERS,
    "image": IMAGE_ENCODERS,
    "sampler": SAMPLERS,
}
