"""Any classifier's last feature map as regions on a grid: ``backbone: grid`` with ``model: mobilenet_v2``. No detector."""

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.extract.engine.params import ImageParams, ShardSize
from vse_pipe.project.traits import BackboneTraits

RANDOM = "random_filters"


class Params(ImageParams):
    model: str
    """a classifier of ``library``, or ``random_filters``, which needs no trained weights (for rendered pictures
    such as ``shapes``)"""
    library: Literal["torchvision", "timm"] = "torchvision"
    """where the model is from"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """passed to its constructor, of ``random_filters`` filters (256), size (7) and stride (2)"""
    rows: PositiveInt = 7
    """of the grid; a larger map is averaged down to it. The mean over ten crops would mix places, so there is the
    centre crop only"""
    columns: PositiveInt = 7
    """of the grid; a larger map is averaged down to it. The mean over ten crops would mix places, so there is the
    centre crop only"""
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


TRAITS = BackboneTraits(trainable=True)
