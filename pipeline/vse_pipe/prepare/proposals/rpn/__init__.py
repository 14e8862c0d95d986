"""The region proposal network of torchvision's Faster R-CNN."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, WeightsName
from vse_pipe.project.sources import SourceFiles, weights_file
from vse_pipe.project.traits import ProposalTraits

TRAITS = ProposalTraits(threads=False)


class Params(Strict):
    detector: str = "fasterrcnn_resnet50_fpn_v2"
    """one of torchvision's ``fasterrcnn_*``"""
    weights: WeightsName = "COCO_V1"
    """a torchvision weights entry, ``random`` or a path"""
    sha256: Digest | None = None
    """the digest of that file"""
    detector_args: dict[str, object] = Field(default_factory=dict)
    """passed to its constructor (rpn_nms_thresh, num_classes)"""
    shorter: PositiveInt = 600
    """the shorter side of a picture is scaled to it, or the longer one to ``longer`` if that is less"""
    longer: PositiveInt = 1000
    """pixels"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.longer < self.shorter:
            raise ValueError(f"longer {self.longer} is less than shorter {self.shorter}")
        if self.weights == "random" and self.sha256:
            raise ValueError("sha256 is given, but random weights have no file to compare it with")
        return self

    def reads(self) -> list[SourceFiles]:
        return weights_file(self.weights)
