"""Structure-preserving loss: both directions, and what belongs together kept close (Wang et al. 2016)."""

from typing import Literal, Self

from pydantic import NonNegativeFloat, PositiveInt, model_validator

from vse_pipe.project.traits import LossTraits
from vse_pipe.train.engine.loss.curriculum import Curriculum


class Params(Curriculum):
    """Defaults: sections 2.2 and 3.1."""

    margin: NonNegativeFloat = 0.1
    """Euclidean distance by which a negative must lie farther off"""
    lambda1: NonNegativeFloat = 2.0
    """factor of the terms that a sentence anchors"""
    lambda2: NonNegativeFloat = 0.0
    """of images against images that no text shares with them (the paper's 0.1 for phrases); where every text has one
    image, an image's only neighbour is itself and the term is 0"""
    lambda3: NonNegativeFloat = 0.2
    """of sentences against sentences"""
    top: PositiveInt = 50
    """triplets kept for each positive pair"""
    variant: Literal["paper", "topk_mean"] = "paper"
    """``paper``, or ``topk_mean`` as in the authors' code, whose values are margin 0.05, lambda1 1.5, lambda3
    0.05 (0.1 in the second repository) and top 10"""
    reduction: Literal["sum", "mean"] = "sum"
    """``sum`` over the pairs of a batch, or that divided by their number: at the paper's batch size the gradient of a
    sum is clipped at nearly every step, so that ``train.grad_clip`` decides its length; ``topk_mean`` is a mean in
    any case"""

    @model_validator(mode="after")
    def _only_of_the_paper(self) -> Self:
        if self.variant == "topk_mean" and self.lambda2:
            raise ValueError("lambda2 must be 0 under topk_mean: the authors' code has no term of images")
        return self


# The Euclidean distance of unit vectors ranks as their cosine does, and as no other similarity.
TRAITS = LossTraits(similarities=("cosine",))
