"""datasets.<name> with ``format: shapes``: how many scenes are made and how they look."""

from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.core.strict import Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ShapesParams(Strict):
    """Counts are images per split; the captions of an image number between the two bounds, both included."""

    train: PositiveInt = 1000
    """images in each split"""
    val: PositiveInt = 200
    """images in each split"""
    test: PositiveInt = 200
    """images in each split"""
    pixels: Annotated[int, Field(ge=32, le=1024)] = 128
    """side of a picture"""
    min_captions: Annotated[int, Field(ge=1, le=7)] = 3
    """captions of an image"""
    max_captions: Annotated[int, Field(ge=1, le=7)] = 7
    """captions of an image"""
    near_duplicates: Share = 0.2
    """share of the scenes that copy an earlier scene of their split with one attribute changed"""
    vague: Share = 0.08
    """share of the captions that name no object at all, so that they fit many images"""
    phrases: bool = False
    """also phrases.parquet: the phrases of the captions that name one figure, and its box"""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min_captions > self.max_captions:
            raise ValueError(f"min_captions {self.min_captions} is above max_captions {self.max_captions}")
        return self

    def counts(self) -> dict[str, int]:
        """Images per split, in the order they are numbered."""
        return {"train": self.train, "val": self.val, "test": self.test}
