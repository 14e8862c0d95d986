"""A family is a folder of members; a member's name is that of its module, here, in params.yaml and on the command line."""

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pipeline.core.errors import UnknownMember
from pipeline.core.unknown import unknown


@dataclass(frozen=True)
class Family:
    """The members found in one package folder: modules, or packages that hold their options in ``__init__``.

    kind: the word used in messages ("loss"); package: dotted name of the folder; work: of a member that is a package, the
    module that does the work, which may import torch. Nothing is imported before it is asked for.
    """

    kind: str
    package: str
    work: str = ""

    @property
    def folder(self) -> Path:
        return Path(__file__).parents[1].joinpath(*self.package.split(".")[1:])

    def names(self) -> list[str]:
        return sorted(one.name for one in pkgutil.iter_modules([str(self.folder)]))

    def check(self, name: str) -> str:
        """``name`` if it is a member. Raises UnknownMember with the near miss and the whole list."""
        known = self.names()
        if name not in known:
            raise UnknownMember(unknown(self.kind, name, known))
        return name

    def options(self, name: str) -> ModuleType:
        """The module with the member's ``Params`` and ``TRAITS``; torch is not imported for it."""
        return importlib.import_module(f"{self.package}.{self.check(name)}")

    def load(self, name: str) -> ModuleType:
        """The module that does the work."""
        return importlib.import_module(self.modules(name)[-1])

    def modules(self, name: str) -> list[str]:
        """The dotted names of the modules a member consists of, its options first."""
        own = f"{self.package}.{self.check(name)}"
        return [own, f"{own}.{self.work}"] if (self.folder / name).is_dir() else [own]


FORMATS = Family("format", "pipeline.prepare.formats")
BACKBONES = Family("backbone", "pipeline.extract.backbones", "build")
ENGINES = Family("engine", "pipeline.extract.engines")
TEXT_FEATURES = Family("text features", "pipeline.extract.texts", "method")
PROTOCOLS = Family("noise protocol", "pipeline.inject.protocols")
LOSSES = Family("loss", "pipeline.train.losses", "loss")
SCHEMES = Family("scheme", "pipeline.train.schemes", "scheme")
SAMPLERS = Family("sampler", "pipeline.train.samplers")
SIMILARITIES = Family("similarity", "pipeline.ranking.similarities", "score")
TEXT_ENCODERS = Family("text encoder", "pipeline.train.encoders.text", "encoder")
IMAGE_ENCODERS = Family("image encoder", "pipeline.train.encoders.image", "encoder")
INFERENCES = Family("inference criterion", "pipeline.ranking.inference", "criterion")
SECTIONS = Family("section", "pipeline.report.sections")

# The members that make up a run, by their key under runs.<name>.
RUN_FAMILIES = {
    "loss": LOSSES,
    "scheme": SCHEMES,
    "similarity": SIMILARITIES,
    "text": TEXT_ENCODERS,
    "image": IMAGE_ENCODERS,
    "sampler": SAMPLERS,
}
