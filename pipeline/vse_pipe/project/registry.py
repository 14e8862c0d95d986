"""A family is a folder of members; a member's name is that of its module, here, in params.yaml and on the command line."""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from vse_pipe.core.errors import UnknownMember
from vse_pipe.core.unknown import unknown
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

Own = TypeVar("Own", bound=Traits)


@dataclass(frozen=True)
class Family(Generic[Own]):
    """The members found in one package folder: all of them modules, or all of them packages.

    kind: the word used in messages ("loss"); package: dotted name of the folder; said: what its members say of themselves
    where they say nothing else. work: of members that are packages, the module that does the work; options and traits are
    in ``__init__`` then, which must be quick to import. Nothing is imported before it is asked for.
    """

    kind: str
    package: str
    said: Own
    work: str = ""

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
        if colon and member in known and "model" in self.options(member).Params.model_fields:
            raise UnknownMember(f"unknown {self.kind} '{name}'; write '{member}', and beside it the key model: {model}")
        raise UnknownMember(unknown(self.kind, name, known))

    def options(self, name: str) -> ModuleType:
        """The module with the member's ``Params``; torch is not imported for it."""
        return importlib.import_module(self.modules(name)[0])

    def traits(self, name: str) -> Own:
        """What the member says of itself: ``TRAITS`` beside its options, the family's own where it names none."""
        return vars(self.options(name)).get("TRAITS", self.said)

    def load(self, name: str) -> ModuleType:
        """The module that does the work."""
        return importlib.import_module(self.modules(name)[-1])

    def modules(self, name: str) -> list[str]:
        """The dotted names of the modules a member consists of, its options first."""
        own = f"{self.package}.{self.check(name)}"
        return [own, f"{own}.{self.work}"] if self.work else [own]


@cache
def _names(folder: Path, changed: int) -> tuple[str, ...]:
    """Looked up once for each state of the folder."""
    return tuple(sorted(one.name for one in pkgutil.iter_modules([str(folder)])))


FORMATS = Family("format", "vse_pipe.prepare.formats", FormatTraits(), "read")
PROPOSALS = Family("proposals", "vse_pipe.prepare.proposals", ProposalTraits(), "propose")
BACKBONES = Family("backbone", "vse_pipe.extract.backbones", BackboneTraits(), "build")
ENGINES = Family("engine", "vse_pipe.project.engines", Traits())
TEXT_FEATURES = Family("text features", "vse_pipe.extract.texts", TextFeatureTraits())
PROTOCOLS = Family("noise protocol", "vse_pipe.inject.protocols", ProtocolTraits())
LOSSES = Family("loss", "vse_pipe.train.losses", LossTraits(), "loss")
SCHEMES = Family("scheme", "vse_pipe.train.schemes", SchemeTraits(), "scheme")
SAMPLERS = Family("sampler", "vse_pipe.train.samplers", Traits())
TRACKERS = Family("tracker", "vse_pipe.train.trackers", Traits(), "track")
SIMILARITIES = Family("similarity", "vse_pipe.ranking.similarities", SimilarityTraits(), "score")
TEXT_ENCODERS = Family("text encoder", "vse_pipe.train.encoders.text", TextEncoderTraits(), "encoder")
IMAGE_ENCODERS = Family("image encoder", "vse_pipe.train.encoders.image", ImageEncoderTraits(), "encoder")
INFERENCES = Family("inference criterion", "vse_pipe.ranking.inference", CriterionTraits(), "criterion")
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
