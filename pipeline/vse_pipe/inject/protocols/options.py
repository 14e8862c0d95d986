"""The options and traits of noise protocols."""

from typing import Annotated, ClassVar, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import PROTOCOLS, ProtocolTraits


class AsIsOptions(Strict):
    """No options: nothing is injected."""

    # pairs.parquet then holds null where it would tell the truth about a train pair.
    traits: ClassVar = ProtocolTraits(knows_truth=False)


class CaptionOptions(Strict):
    rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """share of train captions that exchange their images"""


class DecisionsOptions(Strict):
    """Further keys are the options of ``base``."""

    model_config = ConfigDict(extra="allow")

    file: str
    """decisions.csv, relative to the project or absolute; it may change at any time"""
    base: Annotated[str, PROTOCOLS.member] = "as_is"
    """protocol of the audited noise, with the same options"""

    # The stage makes the pairs of ``base`` first; these know the truth if ``base`` does.
    traits: ClassVar = ProtocolTraits(decides=True, knows_truth=False)

    @model_validator(mode="after")
    def _base_has_options(self) -> Self:
        PROTOCOLS.read(self.base, self.model_extra or {})
        return self


class FileOptions(Strict):
    path: str
    """the file, relative to the project or absolute"""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """required digest of that file"""


class ImageOptions(Strict):
    rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """share of train images that exchange their captions"""
