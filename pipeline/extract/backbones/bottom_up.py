"""Bottom-up-attention features (Anderson et al., CVPR 2018) from the authors' TSV files: regions and their boxes, as they are."""

from typing import Literal

from pydantic import Field, PositiveInt

from pipeline.extract.engine.backbone import Backbone
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


def build(params: Params, seed: int) -> Backbone:
    """(regions, dimensions) and boxes; the files have no scores. Their digests are part of what the features depend on.

    The files are read once to find where each row lies and to take their digests; memory holds a place for each row and
    one row at a time. Raises MissingResource for a file that is not there, InputError naming file and row: not six
    columns, an image twice, no row for an image, another number of boxes or of features, no base64, values that are not
    finite.
    """
    from torch import nn

    from pipeline.extract.engine.backbone import Output
    from pipeline.extract.engine.networks import tsv

    class Given(nn.Module):
        def forward(self, features, boxes) -> Output:
            return Output(features, boxes)

    index = tsv.index(tsv.files(params.tsv))
    about = {
        "network": "bottom-up attention",
        "files": index.files,
        "regions": params.regions,
        "dimensions": params.dimensions,
    }

    def read(root, item):
        return tsv.read(index, item, params.key, (params.regions, params.dimensions))

    return Backbone(read=read, module=Given(), about=about, libraries=())
