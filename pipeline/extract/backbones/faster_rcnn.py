"""Regions of a detector: boxes from torchvision's Faster R-CNN, features from a classifier's last block (bottom-up attention)."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from pipeline.extract.engine.backbone import Backbone
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


def build(params: Params, seed: int) -> Backbone:
    """(regions, 2048) for resnet101, boxes in pixels of the upright image and the detector's scores, best first.

    Boxes: of each of the detector's proposals that of its best class, then non-maximum suppression over all classes, with
    the first of the thresholds 0.3, 0.4, ... 0.9 that leaves enough; the best ``regions`` by score are taken. Where 0.9
    leaves too few the best of the suppressed ones fill up, and where there are too few proposals (pictures of a few
    pixels), the whole picture and the cells of a grid over it, with score 0. Features: RoIAlign, 14 x 14 on the map of
    stride 16 (layer3), through layer4, and the mean.

    Differs from Anderson et al. (CVPR 2018): a detector of COCO's 80 classes with a feature pyramid instead of Visual
    Genome's 1600 classes and attributes, regressed boxes instead of the proposals, a trunk that was trained on ImageNet
    and never on boxes, RoIAlign instead of RoI pooling. The suppression that is relaxed is py-bottom-up-attention's.

    Raises UnknownMember and UsageError for names that are none of these; else what weights and states raise.
    """
    from pipeline.extract.engine.networks import regions

    return regions.assemble(params, seed)
