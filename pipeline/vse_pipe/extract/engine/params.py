"""The options that backbones share; every member's ``Params`` is one of these two, with its own defaults."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, WeightsName
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
    sha256: Digest | None = None
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
