"""Rows of TSV files in the place of a network's output."""

from torch import nn

from vse_pipe.extract.backbones.bottom_up import Params, tsv
from vse_pipe.extract.engine.backbone import Backbone, Output


def build(params: Params, seed: int) -> Backbone:
    """(regions, dimensions) and boxes; the files have no scores. Their digests are part of what the features depend on.

    The files are read once to find where each row lies and to take their digests; memory holds a place for each row and
    one row at a time. Raises MissingResource for a file that is not there, InputError naming file and row: not six
    columns, an image twice, no row for an image, another number of boxes or of features, no base64, values that are not
    finite.
    """

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
