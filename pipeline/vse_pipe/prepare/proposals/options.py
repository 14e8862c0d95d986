"""The options and traits of ways to propose boxes."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Digest, Strict, WeightsName
from vse_pipe.project.sources import SourceFiles, weights_file

Share = Annotated[float, Field(gt=0, le=1)]


class FileOptions(Strict):
    path: Annotated[str, Field(pattern=r"\.npz$")]
    """arrays ``image`` (n), the pictures' names without ending; ``boxes`` (n, 4), x1, y1, x2, y2 in
    pixels from 0 with both corners inside; and optionally ``scores`` (n), without which the first
    boxes are the best"""

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(Path(self.path))]


class RpnOptions(Strict):
    detector: str = "fasterrcnn_resnet50_fpn_v2"
    """a ``fasterrcnn_*`` of torchvision"""
    weights: WeightsName = "COCO_V1"
    """a torchvision weights entry, ``random`` or a path"""
    sha256: Digest | None = None
    """required digest of that file"""
    detector_args: dict[str, object] = Field(default_factory=dict)
    """arguments of its constructor, such as rpn_nms_thresh or num_classes"""
    shorter: PositiveInt = 600
    """pixels of the shorter side, unless the longer side would then be above ``longer``"""
    longer: PositiveInt = 1000
    """most pixels of the longer side"""

    def reads(self) -> list[SourceFiles]:
        return weights_file(self.weights)


class WindowsOptions(Strict):
    scales: Annotated[list[Share], Field(min_length=1)] = Field(default_factory=lambda: [0.8, 0.5, 0.3, 0.2])
    """sides of a square window, as shares of the square root of the picture's area"""
    ratios: Annotated[list[PositiveFloat], Field(min_length=1)] = Field(default_factory=lambda: [1.0, 0.5, 2.0])
    """of a window's width to its height, at the same area"""

    def reads(self) -> list[SourceFiles]:
        return []
