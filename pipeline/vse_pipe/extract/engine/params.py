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
    """What happens to the features of any backbone."""

    normalise: bool = True
    """scale every vector to unit length"""
    store: Literal["float32", "float16"] | None = "float32"
    """the type in features.npy"""
    batch_size: PositiveInt = 64
    """images in one forward pass, part of what the last bits depend on"""
    shard_size: ShardSize = 1024
    """images in one shard, rounded up to whole batches: what a killed extraction loses at most, and what is in
    memory twice while it is written"""

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside the pictures."""
        return []


class ImageParams(FeatureParams):
    """What a network sees of an image. ``null`` means: as the network's weights were published."""

    weights: WeightsName = "imagenet"
    """``imagenet`` (the published weights), the name of one torchvision weights entry such as IMAGENET1K_V1,
    ``random``, or a path"""
    sha256: Digest | None = None
    """the full digest the weights file must have"""
    image_size: PositiveInt | None = None
    """pixels of the square crop"""
    resize: PositiveInt | None = None
    """pixels before the crop, by default the published ratio to image_size (``shorter``) or image_size itself
    (``exact``)"""
    resize_mode: Literal["shorter", "exact"] = "shorter"
    """``shorter`` scales the shorter side and keeps the aspect ratio, ``exact`` scales both sides"""
    interpolation: Literal["bilinear", "bicubic"] | None = None
    """of the scaling"""
    mean: Channels | None = None
    """of each colour channel, for pixels from 0 to 1"""
    std: Scales | None = None
    """of each colour channel, for pixels from 0 to 1"""
    crops: Literal["center", "ten"] = "center"
    """the centre, or the mean over centre, four corners and their mirror images"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """``auto`` is bfloat16 where the hardware computes it natively"""
    draft: bool = False
    """let libjpeg read large JPEGs at a half, a quarter or an eighth of their size (see ``Transform.enough``)"""
    compile: bool = False
    """translate the network with torch.compile first, which takes a C++ compiler and half a minute or more, and
    changes the last bits of the features"""
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
