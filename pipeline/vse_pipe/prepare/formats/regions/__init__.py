"""Boxes of phrases of another data set, and proposed boxes, as pictures: ``source`` is its folder below data/prepare."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import FormatTraits

TRAITS = FormatTraits(proposes=True)
Split = Literal["train", "val", "test"]
_HELD_OUT: list[Split] = ["val", "test"]


class Params(Strict):
    proposals: str = "windows"
    """how boxes are proposed"""
    options: dict[str, object] = Field(default_factory=dict)
    """those of the proposals"""
    count: PositiveInt = 100
    """proposals of a picture, at most"""
    splits: Annotated[list[Split], Field(min_length=1)] = Field(default_factory=lambda: list(_HELD_OUT))
    """of these the pictures get proposals; train too where hard boxes are mined"""
    regions_per_phrase: PositiveInt = 10
    """in train, boxes of one and the same phrase, at most; drawn by the seed"""
