"""Structure-preserving loss: both directions, and captions of one image kept close (Wang et al. 2016)."""

from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt, field_validator

from pipeline.core.strict import Strict
from pipeline.project.traits import LossTraits


class Params(Strict):
    """Defaults: sections 2.2 and 3.1."""

    margin: NonNegativeFloat = 0.1
    """Euclidean distance by which a negative must lie farther off"""
    lambda1: NonNegativeFloat = 2.0
    """factor of the terms that a sentence anchors"""
    lambda2: NonNegativeFloat = 0.0
    """of images against images, 0 as in the paper's image-sentence experiments: its neighbourhoods are the images
    under one sentence, which pairs do not tell"""
    lambda3: NonNegativeFloat = 0.2
    """of sentences against sentences"""
    top: PositiveInt = 50
    """triplets kept for each positive pair"""
    variant: Literal["paper", "topk_mean"] = "paper"
    """``paper``, or ``topk_mean`` as in the authors' code, whose values are margin 0.05, lambda1 1.5, lambda3
    0.05 (0.1 in the second repository) and top 10"""

    @field_validator("lambda2")
    @classmethod
    def _no_image_neighbours(cls, value: float) -> float:
        if value != 0:
            raise ValueError("must be 0: pairs do not tell which images share a sentence")
        return value


# The Euclidean distance of unit vectors ranks as their cosine does, and as no other similarity.
TRAITS = LossTraits(similarities=("cosine",))
