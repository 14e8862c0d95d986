"""Regions of a detector: boxes from torchvision's Faster R-CNN, features from a classifier's last block (bottom-up attention)."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.extract.engine.params import Channels, Digest, FeatureParams, Scales, ShardSize, WeightsName
from vse_pipe.project.sources import SourceFiles, weights_file
from vse_pipe.project.traits import BackboneTraits


class Params(FeatureParams):
    regions: PositiveInt = 36
    """boxes of every image"""
    shorter: PositiveInt = 600
    """every image is scaled so that its shorter side has ``shorter`` pixels, or its longer side ``longer`` if
    that is less; detector and trunk see the same"""
    longer: PositiveInt = 1000
    """every image is scaled so that its shorter side has ``shorter`` pixels, or its longer side ``longer`` if
    that is less; detector and trunk see the same"""
    detector: str = "fasterrcnn_resnet50_fpn_v2"
    """one of torchvision's ``fasterrcnn_*``"""
    detector_weights: WeightsName = "COCO_V1"
    """a torchvision weights entry, ``random`` or a path"""
    detector_sha256: Digest | None = None
    """the digest of that file"""
    detector_args: dict[str, object] = Field(default_factory=dict)
    """passed to its constructor (num_classes, for weights of other classes)"""
    trunk: str = "resnet101"
    """a ``resnet*``, ``resnext*``, ``wide_resnet*`` or ``mobilenet_v2`` of torchvision that makes the features"""
    trunk_args: dict[str, object] = Field(default_factory=dict)
    """passed to its constructor"""
    weights: WeightsName = "imagenet"
    """of the trunk, as of every classifier"""
    sha256: Digest | None = None
    """of the trunk, as of every classifier"""
    mean: Channels | None = None
    """of the trunk, as of every classifier"""
    std: Scales | None = None
    """of the trunk, as of every classifier"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """of the trunk; the detector always runs in float32, bfloat16 would move boxes by several pixels"""
    store: Literal["float32", "float16"] = "float32"
    batch_size: PositiveInt = 8
    shard_size: ShardSize = 256

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.longer < self.shorter:
            raise ValueError(f"longer {self.longer} is less than shorter {self.shorter}")
        for name, weights, digest in (
            ("sha256", self.weights, self.sha256),
            ("detector_sha256", self.detector_weights, self.detector_sha256),
        ):
            if weights == "random" and digest:
                raise ValueError(f"{name} is given, but random weights have no file to compare it with")
        return self

    def reads(self) -> list[SourceFiles]:
        return [*weights_file(self.weights), *weights_file(self.detector_weights)]


TRAITS = BackboneTraits(alone=True)
