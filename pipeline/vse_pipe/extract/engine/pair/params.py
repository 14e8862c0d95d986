"""Which model of open_clip both sides of a pretrained pair are, as params.yaml names it."""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.project.sources import SourceFiles

_FILES = (".safetensors", ".pt", ".pth", ".bin")
HUB = "hf-hub:"


class PairParams(Strict):
    """The same values under features and under texts are the two sides of one model."""

    model: str
    """an architecture of open_clip, ``ViT-B-32``, or a file that describes one in its format, ``my.json`` or a hub's
    open_clip_config.json"""
    weights: str
    """the name of published weights, ``laion2b_s34b_b79k``, ``hf-hub:owner/name`` or ``hf-hub:owner/name/file``, a file that
    ends in .safetensors, .pt, .pth or .bin, or ``random``"""
    sha256: Digest | None = None
    """the full digest the weights file must have; what is fetched from a hub needs one"""
    revision: str = "main"
    """of a hub: the commit, branch or tag to fetch from"""
    pretrained: str | None = None
    """of weights in a file: the published weights that they are or began from, whose preprocessing they need"""
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    """``auto`` is bfloat16 where the hardware computes it natively"""

    @model_validator(mode="after")
    def _fits(self) -> "PairParams":
        if self.weights == "random" and self.sha256:
            raise ValueError("sha256 is given, but random weights have no file to compare it with")
        if self.pretrained and not (self.file or self.weights.startswith(HUB) or self.weights == "random"):
            raise ValueError(f"weights '{self.weights}' are published ones already; leave pretrained out")
        return self

    @property
    def file(self) -> Path | None:
        """The weights, where they are a file of one's own."""
        own = self.weights.endswith(_FILES) and not self.weights.startswith(HUB)
        return Path(self.weights).expanduser() if own else None

    @property
    def described(self) -> Path | None:
        """The file of the architecture, where it is none of open_clip's."""
        return Path(self.model).expanduser() if self.model.endswith(".json") else None

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside pictures and captions."""
        return [SourceFiles(path) for path in (self.file, self.described) if path is not None]
