"""Which model of open_clip both sides of a pretrained pair are, as params.yaml names it."""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.project.sources import SourceFiles

_FILES = (".safetensors", ".pt", ".pth", ".bin")
HUB = "hf-hub:"


class PairParams(Strict):
    """A model of open_clip. The same values under features and under texts are the two sides of one model."""

    model: str
    """an architecture of open_clip such as ``ViT-B-32``, or a file that describes one: ``my.json``, a hub's
    open_clip_config.json"""
    weights: str
    """a published name such as ``laion2b_s34b_b79k``, ``hf-hub:owner/name[/file]``, a file (.safetensors, .pt, .pth,
    .bin), or ``random``"""
    sha256: Digest | None = None
    """required digest of the weights file; weights from a hub need it"""
    revision: str = "main"
    """commit, branch or tag on the hub"""
    pretrained: str | None = None
    """for weights in a file: the published weights that they started from; their preprocessing is used"""
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
