"""Sliding windows of several sizes and shapes, the same for every picture of a size: a floor for other proposals."""

from typing import Annotated

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

Share = Annotated[float, Field(gt=0, le=1)]


class Params(Strict):
    scales: Annotated[list[Share], Field(min_length=1)] = Field(default_factory=lambda: [0.8, 0.5, 0.3, 0.2])
    """sides of a square window, as shares of the square root of the picture's area"""
    ratios: Annotated[list[PositiveFloat], Field(min_length=1)] = Field(default_factory=lambda: [1.0, 0.5, 2.0])
    """of a window's width to its height, its area being kept"""

    def reads(self) -> list[SourceFiles]:
        return []
