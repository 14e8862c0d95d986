"""Bottom-up-attention features (Anderson et al., CVPR 2018) from the authors' TSV files: regions and their boxes, as they are."""

from typing import Literal

from pydantic import Field, PositiveInt

from pipeline.extract.engine.params import FeatureParams, ShardSize


class Params(FeatureParams):
    """tsv: the files, or folders whose ``*.tsv`` and ``*.tsv.<number>`` are read. key: what a row's image_id is, ``file``: the
    number at the end of the image's file name (COCO_val2014_000000391895.jpg, 36979.jpg), or ``image_id``: that of
    images.parquet. regions, dimensions: of every image. As they are by default: not normalised.
    """

    tsv: list[str] = Field(min_length=1)
    key: Literal["file", "image_id"] = "file"
    regions: PositiveInt = 36
    dimensions: PositiveInt = 2048
    normalise: bool = False
    shard_size: ShardSize = 256
