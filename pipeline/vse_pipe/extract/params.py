"""The options that backbones share; every member's ``Params`` is one of these two, with its own defaults."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, StringConstraints, model_validator

from vse_pipe.core.strict import Digest as strict_Digest
from vse_pipe.core.strict import Strict, WeightsName
from vse_pipe.project.params.typed import Member
from vse_pipe.project.sources import SourceFiles, weights_file

Channels = Annotated[list[float], Field(min_length=3, max_length=3)]
Scales = Annotated[list[PositiveFloat], Field(min_length=3, max_length=3)]

# Left out of what the features follow from: it changes when they are written, not what is written.
ShardSize = Annotated[PositiveInt, Field(exclude=True)]


class FeatureParams(Strict):
    """Options of every backbone."""

    normalise: bool = True
    """scales every vector to unit length"""
    store: Literal["float32", "float16"] | None = "float32"
    """type in features.npy"""
    batch_size: PositiveInt = 64
    """images of a forward pass; the last bits of features depend on it"""
    shard_size: ShardSize = 1024
    """images of a shard, rounded up to whole batches: the most that a killed extraction loses; a shard is in memory
    twice while it is written"""

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside the pictures."""
        return []


class ImageParams(FeatureParams):
    """How a network sees an image. ``null`` is the value that the weights were published with."""

    weights: WeightsName = "imagenet"
    """``imagenet`` (published weights), a torchvision weights entry such as IMAGENET1K_V1, ``random``, or a path"""
    sha256: strict_Digest | None = None
    """required digest of the weights file"""
    image_size: PositiveInt | None = None
    """side of the square crop in pixels"""
    resize: PositiveInt | None = None
    """pixels before the crop; null: the published ratio to image_size (``shorter``), or image_size (``exact``)"""
    resize_mode: Literal["shorter", "exact"] = "shorter"
    """``shorter`` scales the shorter side and keeps the aspect ratio, ``exact`` scales both sides"""
    interpolation: Literal["bilinear", "bicubic"] | None = None
    """method of scaling"""
    mean: Channels | None = None
    """of each colour channel, pixels from 0 to 1"""
    std: Scales | None = None
    """of each colour channel, pixels from 0 to 1"""
    crops: Literal["center", "ten"] = "center"
    """the centre, or the mean over centre, four corners and their mirror images"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """``auto`` is bfloat16 where the hardware computes it natively"""
    draft: bool = False
    """libjpeg reads large JPEGs at a half, a quarter or an eighth of their size"""
    compile: bool = False
    """compiles the network by torch.compile: needs a C++ compiler and half a minute or more, changes the last bits of
    features"""
    store: Literal["float32", "float16"] = "float32"

    @model_validator(mode="after")
    def _fits(self) -> "ImageParams":
        if self.resize and self.image_size and self.resize < self.image_size:
            raise ValueError(f"resize {self.resize} is smaller than image_size {self.image_size}")
        if self.weights == "random" and self.sha256:
            raise ValueError("sha256 is given, but random weights have no file to compare it with")
        return self

    def reads(self) -> list[SourceFiles]:
        return weights_file(self.weights)


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
    sha256: strict_Digest | None = None
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
        is_file = self.weights.endswith(_FILES) and not self.weights.startswith(HUB)
        return Path(self.weights).expanduser() if is_file else None

    @property
    def described(self) -> Path | None:
        """The file of the architecture, where it is none of open_clip's."""
        return Path(self.model).expanduser() if self.model.endswith(".json") else None

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside pictures and captions."""
        return [SourceFiles(path) for path in (self.file, self.described) if path is not None]


Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class TextParams(Strict):
    """The base of every method's options."""

    def files(self) -> dict[Path, str]:
        """Files outside the project that the result depends on, each with the sha256 it must have, or nothing."""
        return {}

    def reads(self) -> list[SourceFiles]:
        """The same for DVC: files that the folders do not hold yet are seen when they come."""
        return [SourceFiles(path) for path in self.files()]

    def further(self) -> list[Member]:
        """Other methods that take part."""
        return []


class VectorParams(TextParams):
    """Options of methods with a vector a caption."""

    store: Literal["float32", "float16"] = "float32"
    """type on disk"""
    block: PositiveInt = 256
    """captions in memory at a time"""


class WordVectorParams(VectorParams):
    """Options of methods that read word vectors."""

    vectors: str
    """file of word vectors: .bin, .txt, .vec, each also .gz, .npz, or .npy with ``words``"""
    words: str | None = None
    """for .npy: file of the words, one a line, or Parquet with one text column"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""
    lower: bool = True
    """lower-cases captions before words are looked up"""
    unit: bool = False
    """scales word vectors to unit length first"""

    @property
    def path(self) -> Path:
        """The file, ``~`` and all."""
        return Path(self.vectors).expanduser()

    @property
    def names(self) -> Path | None:
        """The file of the words, where they have one of their own."""
        return None if self.words is None else Path(self.words).expanduser()

    def files(self) -> dict[Path, str]:
        return {self.path: self.sha256 or ""} | ({} if self.names is None else {self.names: ""})
