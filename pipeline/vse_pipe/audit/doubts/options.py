"""The options and traits of doubts: what speaks for or against a pair of an image and a caption."""

from typing import Annotated, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import DoubtTraits


class LinearOptions(Strict):
    text_ridge: PositiveFloat = 2.0
    """ridge of the map from captions to images, in units of the mean variance of a dimension"""
    image_ridge: PositiveFloat = 3.0
    """ridge of the map from images to captions"""


class LossesOptions(Strict):
    """No options: the losses of a trained run, which is audited by them alone."""

    traits: ClassVar = DoubtTraits(of_run=True)


class NeighboursOptions(Strict):
    k: PositiveInt = 30
    """neighbours of an image and of a caption"""
    reference: Annotated[int, Field(ge=100)] = 4096
    """images, and as many captions, drawn at random, among which neighbours are sought"""

    traits: ClassVar = DoubtTraits(later=True)


class SiblingsOptions(Strict):
    """No options: the other captions of the image."""

    traits: ClassVar = DoubtTraits(later=True, siblings=True)


class SimilarityOptions(Strict):
    """No options: the vectors as they are."""

    traits: ClassVar = DoubtTraits(joint=True)
