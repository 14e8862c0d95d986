"""Bottom-up-attention features (Anderson et al., CVPR 2018) from the authors' TSV files: regions and their boxes, as they are."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt

from vse_pipe.extract.engine.params import FeatureParams, ShardSize
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.traits import BackboneTraits


class Params(FeatureParams):
    tsv: list[str] = Field(min_length=1)
    """the files, or folders whose ``*.tsv`` and ``*.tsv.<number>`` are read"""
    key: Literal["file", "image_id"] = "file"
    """what a row's image_id is, ``file``: the number at the end of the image's file name
    (COCO_val2014_000000391895.jpg, 36979.jpg), or ``image_id``: that of images.parquet"""
    regions: PositiveInt = 36
    """of every image. As they are by default: not normalised"""
    dimensions: PositiveInt = 2048
    """of every image. As they are by default: not normalised"""
    normalise: bool = False
    shard_size: ShardSize = 256

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(Path(name).expanduser(), patterns=("*.tsv", "*.tsv.*")) for name in self.tsv]


TRAITS = BackboneTraits(by_content=False, alone=True)
