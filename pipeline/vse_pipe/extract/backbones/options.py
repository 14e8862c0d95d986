"""The options and traits of backbones: first those that several backbones share."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, WeightsName
from vse_pipe.project.registry import BackboneTraits
from vse_pipe.project.sources import SourceFiles, weights_file

RANDOM = "random_filters"
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
    """images of a shard, rounded up to whole batches: the most that a killed extraction loses; a
    shard is in memory twice while it is written"""

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside the pictures."""
        return []


class ImageParams(FeatureParams):
    """How a network sees an image. ``null`` is the value that the weights were published with."""

    weights: WeightsName = "imagenet"
    """``imagenet`` (published), a torchvision entry such as IMAGENET1K_V1, ``random``, or a path"""
    sha256: Digest | None = None
    """required digest of the weights file"""
    image_size: PositiveInt | None = None
    """side of the square crop in pixels"""
    resize: PositiveInt | None = None
    """pixels before the crop; null: the published ratio (``shorter``), or image_size (``exact``)"""
    resize_mode: Literal["shorter", "exact"] = "shorter"
    """``shorter`` scales the shorter side and keeps the aspect ratio, ``exact`` scales both"""
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
    store: Literal["float32", "float16"] = "float32"

    def reads(self) -> list[SourceFiles]:
        return weights_file(self.weights)


_FILES = (".safetensors", ".pt", ".pth", ".bin")


class PairParams(Strict):
    """A model of open_clip. Equal values under features and texts are the sides of one model."""

    model: str
    """an architecture of open_clip such as ``ViT-B-32``, or a file that describes one: ``my.json``,
    a hub's open_clip_config.json"""
    weights: str
    """a published name such as ``laion2b_s34b_b79k``, a file (.safetensors, .pt), or ``random``"""
    sha256: Digest | None = None
    """required digest of the weights file; weights from a hub need it"""
    pretrained: str | None = None
    """for weights in a file: the published weights whose preprocessing is used"""
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    """``auto`` is bfloat16 where the hardware computes it natively"""

    @model_validator(mode="after")
    def _fits(self) -> "PairParams":
        if self.pretrained and not (self.file or self.weights == "random"):
            raise ValueError(f"weights '{self.weights}' are published ones already; leave pretrained out")
        return self

    @property
    def file(self) -> Path | None:
        """The weights, where they are a file of one's own."""
        return Path(self.weights).expanduser() if self.weights.endswith(_FILES) else None

    @property
    def described(self) -> Path | None:
        """The file of the architecture, where it is none of open_clip's."""
        return Path(self.model).expanduser() if self.model.endswith(".json") else None

    def reads(self) -> list[SourceFiles]:
        """Files from outside of the pipeline, beside pictures and captions."""
        return [SourceFiles(path) for path in (self.file, self.described) if path is not None]


class BottomUpOptions(FeatureParams):
    tsv: list[str] = Field(min_length=1)
    """files, or folders with ``*.tsv`` and ``*.tsv.<number>``; image_id of a row is the number at the end of the image's
    file name (COCO_val2014_000000391895.jpg, 36979.jpg)"""
    regions: PositiveInt = 36
    """of every image"""
    dimensions: PositiveInt = 2048
    """of every region"""
    normalise: bool = False
    shard_size: ShardSize = 256

    traits: ClassVar = BackboneTraits(by_content=False, independent=True)

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(Path(name).expanduser(), patterns=("*.tsv", "*.tsv.*")) for name in self.tsv]


class FasterRcnnOptions(FeatureParams):
    regions: PositiveInt = 36
    """boxes of every image"""
    shorter: PositiveInt = 600
    """pixels of the shorter side, unless the longer side would then be above ``longer``; detector
    and trunk see the same"""
    longer: PositiveInt = 1000
    """most pixels of the longer side"""
    detector: str = "fasterrcnn_resnet50_fpn_v2"
    """a ``fasterrcnn_*`` of torchvision"""
    detector_weights: WeightsName = "COCO_V1"
    """a torchvision weights entry, ``random`` or a path"""
    detector_sha256: Digest | None = None
    """required digest of that file"""
    detector_args: dict[str, object] = Field(default_factory=dict)
    """arguments of its constructor, such as num_classes"""
    trunk: str = "resnet101"
    """network of the features: ``resnet*``, ``resnext*``, ``wide_resnet*`` or ``mobilenet_v2``"""
    weights: WeightsName = "imagenet"
    """of the trunk, as of other classifiers"""
    sha256: Digest | None = None
    """of the trunk, as of other classifiers"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """of the trunk; the detector runs in float32, since bfloat16 moves boxes by several pixels"""
    store: Literal["float32", "float16"] = "float32"
    batch_size: PositiveInt = 8
    shard_size: ShardSize = 256

    traits: ClassVar = BackboneTraits(independent=True)

    def reads(self) -> list[SourceFiles]:
        return [*weights_file(self.weights), *weights_file(self.detector_weights)]


class GridOptions(ImageParams):
    model: str
    """a classifier of ``library``, or ``random_filters`` (untrained, for rendered pictures)"""
    library: Literal["torchvision", "timm"] = "torchvision"
    """source of the model"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """arguments of its constructor; of ``random_filters``: filters (256), size (7), stride (2)"""
    rows: PositiveInt = 7
    """size of the grid; a larger map is averaged down to it"""
    columns: PositiveInt = 7
    """size of the grid; a larger map is averaged down to it"""
    crops: Literal["center"] = "center"
    """the centre only; a mean over ten crops would mix places"""
    shard_size: ShardSize = 256

    traits: ClassVar = BackboneTraits(trainable=True)

    @model_validator(mode="before")
    @classmethod
    def _random_filters_have_no_weights(cls, values: object) -> object:
        """Defaults: no weights, the whole picture scaled to a square, as that backbone has it."""
        if isinstance(values, dict) and values.get("model") == RANDOM:
            values = {"weights": "random", "resize_mode": "exact", **values}
            if values["weights"] != "random":
                raise ValueError(
                    f"random_filters has no trained weights: weights must be random, not {values['weights']}"
                )
        return values


class InceptionResnetV2Options(ImageParams):
    """Shorter side 333, centre crop 299, bicubic, mean and std 0.5, as timm evaluates them."""

    traits: ClassVar = BackboneTraits(trainable=True)


class OpenClipOptions(PairParams, FeatureParams):
    """Texts of method ``open_clip`` with the same model and weights are its captions' side."""


class PrecompOptions(FeatureParams):
    """As they are, by default: not normalised, in their type (float64 becomes float32)."""

    normalise: bool = False
    store: Literal["float32", "float16"] | None = None
    batch_size: PositiveInt = 1024

    traits: ClassVar = BackboneTraits(independent=True)


class RandomFiltersOptions(FeatureParams):
    filters: PositiveInt = 256
    """their number, half the number of features"""
    size: PositiveInt = 7
    """of a filter, in pixels of the scaled image"""
    stride: PositiveInt = 2
    """of a filter, in pixels of the scaled image"""
    image_size: PositiveInt = 64
    """side in pixels; the whole image is scaled to a square"""

    traits: ClassVar = BackboneTraits(trainable=True)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size > self.image_size:
            raise ValueError(f"size {self.size} is larger than image_size {self.image_size}")
        return self


class Resnet152Options(ImageParams):
    """``weights: imagenet`` is torchvision's IMAGENET1K_V2 (resnet152-f82ba261.pth), trained by a
    later recipe than the papers' networks; IMAGENET1K_V1 (resnet152-394f9c45.pth) is what VSE++ and
    HAL had, and what their rows name."""

    traits: ClassVar = BackboneTraits(trainable=True)


class TimmOptions(ImageParams):
    model: str
    """an architecture or ``architecture.tag``"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """arguments of timm.create_model, such as {pad_type: same}"""

    traits: ClassVar = BackboneTraits(trainable=True)


class TorchvisionOptions(ImageParams):
    model: str
    """a name in ``torchvision.models``"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """arguments of its constructor, for weights of other shapes"""

    traits: ClassVar = BackboneTraits(trainable=True)


class Vgg19Options(ImageParams):
    """Shorter side 256, centre crop 224; ``crops: ten`` as Kiros et al. and Vendrov et al."""

    traits: ClassVar = BackboneTraits(trainable=True)
