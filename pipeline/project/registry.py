"""A family is a folder of modules; a member's file name is its name everywhere else."""

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pipeline.core.errors import UnknownMember


def near_miss(name: str, known: list[str]) -> str:
    """``"; did you mean 'max'?"`` when one of ``known`` is close to ``name``, else an empty string."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


@dataclass(frozen=True)
class Family:
    """The members found in one package folder.

    kind: the word used in messages ("loss"); package: dotted name of the folder. Modules whose name starts
    with an underscore are helpers, not members. Nothing is imported before ``load``.
    """

    kind: str
    package: str

    @property
    def folder(self) -> Path:
        return Path(__file__).parent.joinpath(*self.package.split(".")[1:])

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.py") if not path.stem.startswith("_"))

    def check(self, name: str) -> str:
        """``name`` if it is a member. Raises UnknownMember with the near miss and the whole list."""
        known = self.names()
        if name not in known:
            raise UnknownMember(
                f"unknown {self.kind} '{name}'{near_miss(name, known) or ';'} known: {', '.join(known)}"
            )
        return name

    def load(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{self.check(name)}")


FORMATS = Family("format", "pipeline.prepare.formats")
BACKBONES = Family("backbone", "pipeline.extract.backbones")
ENGINES = Family("engine", "pipeline.extract.engines")
TEXT_FEATURES = Family("text features", "pipeline.extract.texts")
PROTOCOLS = Family("noise protocol", "pipeline.inject.protocols")
LOSSES = Family("loss", "pipeline.train.losses")
SCHEMES = Family("scheme", "pipeline.train.schemes")
SAMPLERS = Family("sampler", "pipeline.train.samplers")
SIMILARITIES = Family("similarity", "pipeline.ranking.similarities")
TEXT_ENCODERS = Family("text encoder", "pipeline.train.encoders.text")
IMAGE_ENCODERS = Family("image encoder", "pipeline.train.encoders.image")
INFERENCES = Family("inference criterion", "pipeline.ranking.inference")

# The members that make up a run, by their key under runs.<name>.
RUN_FAMILIES = {
    "loss": LOSSES,
    "scheme": SCHEMES,
    "similarity": SIMILARITIES,
    "text": TEXT_ENCODERS,
    "image": IMAGE_ENCODERS,
    "sampler": SAMPLERS,
}
