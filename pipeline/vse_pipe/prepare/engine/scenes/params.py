"""datasets.<name> with ``format: shapes``: how many scenes are made and how they look."""

from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.core.strict import Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ShapesParams(Strict):
    """Counts are images per split; the captions of an image number between the two bounds, both included."""

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
    near_duplicates: Share = 0.2
    """share of scenes that copy an earlier one of their split with one attribute changed"""
    vague: Share = 0.08
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
