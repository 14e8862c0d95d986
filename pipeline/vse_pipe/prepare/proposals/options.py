"""The options and traits of ways to propose boxes."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, WeightsName
from vse_pipe.project.sources import SourceFiles, weights_file
from vse_pipe.project.traits import ProposalTraits

Share = Annotated[float, Field(gt=0, le=1)]


class FileOptions(Strict):
    path: Annotated[str, Field(pattern=r"\.(npz|mat|csv)$")]
    """of arrays ``image`` (n), ``boxes`` (n, 4) and, where there are any, ``scores`` (n), or a table
    ``image,x1,y1,x2,y2[,score]``; without scores the first boxes are the best"""
    sha256: Digest | None = None
    """the digest of that file; any other is refused"""
    by: Literal["stem", "file", "image_id"] = "stem"
    """what ``image`` says of a picture: its file's name without folder and ending, ``file`` as images.parquet has it, or its id"""
    form: Literal["corners", "sizes"] = "corners"
    """of a box: x1, y1, x2, y2, both corners inside, or x, y, width, height"""
    first_pixel: Literal[0, 1] = 0
    """the number of the first pixel, 1 in MATLAB"""

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(Path(self.path))]


class RpnOptions(Strict):
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

    traits: ClassVar = ProposalTraits(threads=False)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.longer < self.shorter:
            raise ValueError(f"longer {self.longer} is less than shorter {self.shorter}")
        if self.weights == "random" and self.sha256:
            raise ValueError("sha256 is given, but random weights have no file to compare it with")
        return self

    def reads(self) -> list[SourceFiles]:
        return weights_file(self.weights)


class SelectiveSearchOptions(Strict):
    mode: Literal["fast", "quality"] = "fast"
    """``quality`` segments in more colour spaces and sizes: more boxes, several times the time"""
    longer: PositiveInt = 500
    """a picture whose longer side has more pixels is scaled to so many"""

    def reads(self) -> list[SourceFiles]:
        return []


class WindowsOptions(Strict):
    scales: Annotated[list[Share], Field(min_length=1)] = Field(default_factory=lambda: [0.8, 0.5, 0.3, 0.2])
    """sides of a square window, as shares of the square root of the picture's area"""
    ratios: Annotated[list[PositiveFloat], Field(min_length=1)] = Field(default_factory=lambda: [1.0, 0.5, 2.0])
    """of a window's width to its height, its area being kept"""

    def reads(self) -> list[SourceFiles]:
        return []
