"""The options and traits of formats, and the files from outside that each of them reads."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from vse_pipe.core import seeds
from vse_pipe.core.files import is_remote
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import PROPOSALS, FormatTraits
from vse_pipe.project.sources import EVERYTHING, SourceFiles

# Endings of pictures in a folder.
_KINDS = "jpg jpeg jpe jfif png webp gif bmp tif tiff ppm pgm pbm pnm jp2 j2k avif heic heif"
ENDINGS = tuple(f".{kind}" for kind in _KINDS.split())
# Numbers with leading zeros: {0000..0041}
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def _a_pattern_or_a_share(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1):
        return value
    raise ValueError("expected a pattern of file names, or a share from 0 to below 1")


Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[object, AfterValidator(_a_pattern_or_a_share)]
Prefix = Literal["train", "dev", "test"]
Column = str | NonNegativeInt | list[str] | list[NonNegativeInt]
Separator = Annotated[str, Field(min_length=1)] | None


class SplitShares(Strict):
    """Options ``val`` and ``test`` that may be shares of the images."""

    def shares(self) -> list[float]:
        """Of val and test; 0 where the option is none."""
        values = (getattr(self, name) for name in ("val", "test"))
        return [value if isinstance(value, int | float) else 0.0 for value in values]

    @model_validator(mode="after")
    def _leave_some_to_train(self) -> Self:
        if sum(self.shares()) >= 1:
            raise ValueError(f"val and test must leave a share to train, got {' + '.join(map(str, self.shares()))}")
        return self

    def drawn(self, name: str, seed: int) -> str:
        """The split of an image by a hash of seed and ``name``, whatever other images there are."""
        place, (val, test) = seeds.derive_seed(seed, "split", name) / 2**63, self.shares()
        return "test" if place < test else "val" if place < test + val else "train"


class ListParams(SplitShares):
    """Options of a file that lists pictures."""

    images: str = "."
    """folder of the images, relative to that of the file"""
    val: Share = 0.1
    """share, where nothing says the split"""
    test: Share = 0.1
    """share, where nothing says the split"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The file, and its pictures: all files of a folder of their own, whatever their names."""
        endings = ENDINGS if Path(self.images) == Path() else EVERYTHING
        return [SourceFiles(source), SourceFiles(source.parent / self.images, endings=endings)]


class ShardParams(SplitShares):
    """Patterns of file names below ``source``."""

    train: str
    """pattern of the split"""
    val: Part
    """pattern of the split, or its share of the train images; 0: none"""
    test: Part
    """pattern of the split, or its share of the train images; 0: none"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The files of all splits; of a range of numbers all that it could name."""
        if RANGE.search(source.name):
            return [SourceFiles(source.parent, patterns=(RANGE.sub("*", source.name),))]
        patterns = (part for part in (self.train, self.val, self.test) if isinstance(part, str))
        return [SourceFiles(source, patterns=tuple(RANGE.sub("*", part) for part in patterns))]


class FeatureArrayParams(Strict):
    splits: Annotated[list[Prefix], Field(min_length=1)] = Field(default=["train", "dev", "test"])
    """splits to read"""

    endings: ClassVar[tuple[str, ...]] = ("ims.npy", "caps.txt")

    @property
    def prefixes(self) -> list[str]:
        """The beginnings of the names of the files of each split that is read, in their order."""
        return [name for name in ("train", "dev", "test") if name in self.splits]

    def reads(self, source: Path) -> list[SourceFiles]:
        names = [f"{prefix}_{ending}" for prefix in self.prefixes for ending in self.endings]
        return [SourceFiles(source, patterns=tuple(names))]


class CcOptions(FeatureArrayParams):
    endings: ClassVar[tuple[str, ...]] = ("caps.tsv", "ims.npy")
    # A noise protocol that claims to know which train pairs match is refused for such data.
    traits: ClassVar = FormatTraits(knows_truth=False)


class CocoOptions(ShardParams):
    """Patterns of json files below ``source``; one json as ``source`` is all train."""

    train: str = "annotations/captions_train*.json"
    val: Part = "annotations/captions_val*.json"
    test: Part = 0.1
    images: str | None = None
    """folder of the images, relative to ``source``; null: train2017 for captions_train2017.json"""
    max_captions: PositiveInt | None = None
    """of each image, those of the first ids"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The json files, and the pictures."""
        root = source.parent if source.suffix == ".json" else source
        return [*super().reads(source), SourceFiles(root / (self.images or ""), endings=ENDINGS)]

    def folder(self, document: Path) -> str:
        """The folder of the images that a json names, relative to ``source``."""
        return document.stem.removeprefix("captions_") if self.images is None else self.images


class CsvOptions(ListParams):
    columns: dict[Literal["image", "caption", "split", "image_id", "caption_id"], Column] = Field(default_factory=dict)
    """names of the columns, or their numbers from 0 without a header; a list for ``caption``"""
    separator: Separator = None
    """between several captions of a cell, such as ``"|"``; null: one, or a written list"""


class EntitiesOptions(Strict):
    images: str = "flickr30k-images"
    """folder of the pictures ``<id>.jpg``, relative to ``source``"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The lists of pictures, sentences, annotations and pictures."""
        patterns = ("train.txt", "val.txt", "test.txt", "Sentences/*.txt", "Annotations/*.xml")
        return [SourceFiles(source, patterns=patterns), SourceFiles(source / self.images, endings=(".jpg",))]


class FolderOptions(Strict):
    """No options."""

    def reads(self, source: Path) -> list[SourceFiles]:
        return [SourceFiles(source, endings=ENDINGS)]


class KarpathyOptions(ListParams):
    images: str = "images"
    max_captions: PositiveInt | None = None
    """of each image, the first ones"""
    include_restval: bool = True
    """counts COCO's ``restval`` images as train"""
    val: Share = 0.0
    """share of the train images; for a json without val"""
    test: Share = 0.0
    """share of the train images; for a json without test"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The json, and the folder of its pictures."""
        document = source if source.suffix == ".json" else source / "dataset_*.json"
        return [SourceFiles(source, patterns=("dataset_*.json",)), super().reads(document)[1]]


class ParquetOptions(ShardParams):
    train: str = "train*.parquet"
    val: Part = "val*.parquet"
    test: Part = "test*.parquet"
    image: str = "image"
    """column of bytes, of file names below ``source``, or of structs ``bytes`` and ``path``"""
    caption: str | list[str] = "caption"
    """column of strings, lists, or structs with ``raw``, or several; else caption_0, ..."""
    separator: Separator = None
    """between several captions of a string, such as ``"|"``; null: one, or a written list"""
    image_id: str | None = None
    """column of image ids, numbers or text; null: running numbers"""
    split: str | None = None
    """column of the split, in the files of ``train``"""

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_split(cls, values):
        if isinstance(values, dict) and values.get("split") is not None:
            if excess := [name for name in ("val", "test") if name in values]:
                raise ValueError(f"split names a column, so {' and '.join(excess)} must not be given")
            values = {**values, "val": 0.0, "test": 0.0}
        return values

    def reads(self, source: Path) -> list[SourceFiles]:
        """The files, and pictures beside them, whose names may stand in them."""
        if is_remote(source):
            return super().reads(source)
        folder = source if source.is_dir() else source.parent
        return [*super().reads(source), SourceFiles(folder, endings=ENDINGS)]


class PrecompOptions(FeatureArrayParams):
    test: Literal["test", "testall"] = "test"
    """files of the test split"""
    captions_per_image: PositiveInt | None = None
    """their number; else inferred from the files"""

    @property
    def prefixes(self) -> list[str]:
        return [self.test if name == "test" else name for name in super().prefixes]


class RegionsOptions(Strict):
    proposals: Annotated[str, PROPOSALS.member] = "windows"
    """method of proposing boxes"""
    options: dict[str, object] = Field(default_factory=dict, validate_default=True)
    """of that method"""
    count: PositiveInt = 100
    """most proposals of a picture"""
    splits: Annotated[list[Literal["train", "val", "test"]], Field(min_length=1)] = Field(default=["val", "test"])
    """splits whose pictures get proposals; hard negative mining needs train too"""
    regions_per_phrase: PositiveInt = 10
    """most boxes of one phrase in train, drawn by the seed"""

    traits: ClassVar = FormatTraits(proposes=True)

    @field_validator("options")
    @classmethod
    def _are_of_the_method(cls, options: dict[str, object], info: ValidationInfo) -> dict[str, object]:
        if "proposals" in info.data:
            PROPOSALS.read(info.data["proposals"], options)
        return options


class ShapesOptions(Strict):
    """Counts are images of a split; an image has min_captions to max_captions captions."""

    train: PositiveInt = 1000
    """images of the split"""
    val: PositiveInt = 200
    """images of the split"""
    test: PositiveInt = 200
    """images of the split"""
    pixels: Annotated[int, Field(ge=32, le=1024)] = 128
    """side of a picture"""
    min_captions: Annotated[int, Field(ge=1, le=7)] = 3
    """captions of an image"""
    max_captions: Annotated[int, Field(ge=1, le=7)] = 7
    """captions of an image"""
    near_duplicates: Annotated[float, Field(ge=0, le=1)] = 0.2
    """share of scenes that copy an earlier one of their split with one attribute changed"""
    vague: Annotated[float, Field(ge=0, le=1)] = 0.08
    """share of captions that name no object and so fit many images"""
    phrases: bool = False
    """writes phrases.parquet as well: phrases that name one figure, and its box"""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min_captions > self.max_captions:
            raise ValueError(f"min_captions {self.min_captions} is above max_captions {self.max_captions}")
        return self

    def counts(self) -> dict[str, int]:
        """Images per split, in the order they are numbered."""
        return {"train": self.train, "val": self.val, "test": self.test}

    def reads(self, source: Path) -> list[SourceFiles]:
        """None: the pictures are drawn."""
        return []


class WebdatasetOptions(ShardParams):
    train: str = "train*.tar"
    val: Part = "val*.tar"
    test: Part = "test*.tar"
    caption: Annotated[str, Field(min_length=1)] = "txt"
    """ending of the captions' file"""
    field: str = "caption"
    """key of the captions in json files, a string or a list of strings"""
    separator: Separator = None
    """between several captions of a text, such as ``"\\n"``; null: one, or a written list"""
    ids: Literal["running", "key"] = "running"
    """image ids: numbers in the order of the shards, or the samples' keys, then unique"""
