"""Any classifier's last feature map as regions on a grid: ``backbone: grid`` with ``model: mobilenet_v2``. No detector."""

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import ImageParams, ShardSize

RANDOM = "random_filters"


class Params(ImageParams):
    """model: a classifier of ``library``, or ``random_filters``, which needs no trained weights (for rendered pictures such
    as ``shapes``); library: where the model is from; model_args: passed to its constructor, of ``random_filters`` filters (256), size (7) and
    stride (2). rows, columns: of the grid; a larger map is averaged down to it. The mean over ten crops would mix places,
    so there is the centre crop only.
    """

    model: str
    library: Literal["torchvision", "timm"] = "torchvision"
    model_args: dict[str, object] = Field(default_factory=dict)
    rows: PositiveInt = 7
    columns: PositiveInt = 7
    crops: Literal["center"] = "center"
    shard_size: ShardSize = 256

    @model_validator(mode="before")
    @classmethod
    def _random_filters_have_no_weights(cls, values: object) -> object:
        """Their own defaults: no weights to look for, and the whole picture scaled to a square, as that backbone has it."""
        if isinstance(values, dict) and values.get("model") == RANDOM:
            values = {"weights": "random", "resize_mode": "exact", **values}
            if values["weights"] != "random":
                raise ValueError(
                    f"random_filters has no trained weights: weights must be random, not {values['weights']}"
                )
        return values


def build(params: Params, seed: int) -> Backbone:
    """(rows * columns, D) an image, row by row from the top left, with the boxes of the cells and no scores.

    A box is the part of the picture that lies under the cell, in pixels of the upright image: after a centre crop the
    boxes together are that crop, and what lies outside is in none. The network sees more than the box of each cell (its
    receptive field). Where the map is no multiple of the grid, neighbouring cells share a line of the map, and their
    boxes overlap as much.

    Raises UnknownMember for another name, UsageError for a network without a map (torchvision's ViT; timm's gives its
    patches) or with a smaller one; else as ``assemble``.
    """
    from pipeline.extract.engine.networks import grid

    return grid.assemble(params, seed, params.model == RANDOM)
