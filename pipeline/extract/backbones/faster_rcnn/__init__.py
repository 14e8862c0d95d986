"""Regions of a detector: boxes from torchvision's Faster R-CNN, features from a classifier's last block (bottom-up attention)."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from pipeline.extract.engine.params import Channels, Digest, FeatureParams, Scales, ShardSize, WeightsName


class Params(FeatureParams):
    """regions: boxes of every image. shorter, longer: every image is scaled so that its shorter side has ``shorter`` pixels,
    or its longer side ``longer`` if that is less; detector and trunk see the same.

    detector: one of torchvision's ``fasterrcnn_*``; detector_weights: a torchvision weights entry, ``random`` or a path;
    detector_sha256: the digest of that file; detector_args: passed to its constructor (num_classes, for weights of other classes).
    trunk: a ``resnet*``, ``resnext*``, ``wide_resnet*`` or ``mobilenet_v2`` of torchvision that makes the features; weights,
    sha256, mean, std: of the trunk, as of every classifier; trunk_args: passed to its constructor. precision: of the trunk;
    the detector always runs in float32, bfloat16 would move boxes by several pixels.
    """

    regions: PositiveInt = 36
    shorter: PositiveInt = 600
    longer: PositiveInt = 1000
    detector: str = "fasterrcnn_resnet50_fpn_v2"
    detector_weights: WeightsName = "COCO_V1"
    detector_sha256: Digest | None = None
    detector_args: dict[str, object] = Field(default_factory=dict)
    trunk: str = "resnet101"
    trunk_args: dict[str, object] = Field(default_factory=dict)
    weights: WeightsName = "imagenet"
    sha256: Digest | None = None
    mean: Channels | None = None
    std: Scales | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
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
