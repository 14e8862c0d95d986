"""The options and traits of losses."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import LossTraits


class Tempered(Strict):
    tau: PositiveFloat = 0.05
    """temperature"""


class Margin(Strict):
    margin: NonNegativeFloat = 0.2
    """by which a positive must beat a negative"""


class Hinges(Margin):
    curriculum: NonNegativeFloat = 0.0
    """epochs (also fractions) in which the negatives that count fall from all of the batch to
    the loss's own number, hardest first; 0: no curriculum"""


class CrclOptions(Tempered):
    complementary: NonNegativeFloat = 5.0
    """weight of the negatives' part; 5 in the authors' code"""

    traits: ClassVar = LossTraits(takes=("targets",))


class DeclOptions(Strict):
    tau: PositiveFloat = 0.1
    """temperature of the evidence"""
    margin: NonNegativeFloat = 0.2
    """of the hinge, in units of tanh of the similarity"""
    hardest: PositiveInt = 5
    """negatives of a row and of a column that the hinge counts; the fewest under scheme ``decl``"""
    lambda1: NonNegativeFloat = 0.8
    """weight of the hinge"""
    lambda2: NonNegativeFloat = 0.1
    """weight of the divergence that takes evidence from negatives"""

    traits: ClassVar = LossTraits(takes=("targets",))


class HalOptions(Strict):
    """The defaults train on small and large sets at every rate that was tried (docs/losses.md).
    Table 3 of the paper has gamma 30 and eps 0.3 for MS-COCO (row 3.3), 60 and 0.7 for Flickr30k
    (row 3.8)."""

    gamma: PositiveFloat = 20.0
    """inverse temperature"""
    eps: float = 0.7
    """similarity above which a negative counts"""
    variant: Literal["extended", "paper", "code"] = "extended"
    """``paper``, the authors' ``code``, or ``extended``: as the paper, and pairs of similarity
    below 0 are pulled together too"""

    # Similarities that are never above 0 would never reach the logarithm.
    traits: ClassVar = LossTraits(above_zero=True, takes=("weights",))


class HalEmnlpOptions(Hinges):
    k: PositiveInt = 3
    """neighbours averaged; 3 in the paper, 1 in its row 2.23"""
    reading: Literal["A", "B"] = "A"
    """point that Eq. 4 leaves out of the neighbours: ``A`` the match of the image or text (as
    Eq. 2 suggests), ``B`` the other member of the cell"""
    gradient: Literal["detached", "full"] = "detached"
    """``detached``: the exponent is a constant weight, as in Zelnik-Manor and Perona's
    self-tuning"""
    negatives: Literal["sum", "max"] = "sum"
    """Eq. 2 (the paper's default), or Eq. 3 (MAX+HAL)"""

    @model_validator(mode="after")
    def _comes_to_fewer(self) -> Self:
        if self.curriculum and self.negatives == "sum":
            raise ValueError("curriculum needs negatives: max; a sum counts all of them")
        return self


class HubOptions(Tempered):
    """Defaults: the authors' code, but for ``tau``."""

    centrality: NonNegativeFloat = 0.3
    """extra weight of a pair whose image or text is similar to the whole batch; 0: none"""
    uniform: NonNegativeFloat = 1.0
    """weight of the distance from the plan; with ``centrality`` 0 and this 0 the loss is
    ``infonce``"""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.7
    """share of the plan in the target; the rest is the pair itself"""


class InfonceOptions(Tempered):
    learn: bool = False
    """trains the logarithm of the temperature with the model; it starts at ``tau`` and stays at
    0.01 or above (CLIP)"""
    lr: PositiveFloat | None = None
    """learning rate of the temperature; null: ``train.lr``, which hardly moves it in a short run"""

    traits: ClassVar = LossTraits(learns=True)

    @model_validator(mode="after")
    def _of_what_is_learned(self) -> Self:
        if self.lr is not None and not self.learn:
            raise ValueError("lr is of a temperature that is learned; set learn: true")
        return self


class InfonceRceOptions(Tempered):
    pass


class MaxOptions(Hinges):
    pass


class RclOptions(Tempered):
    pass


class SigmoidOptions(Strict):
    scale: PositiveFloat = 10.0
    """initial factor of similarities; its logarithm is learned"""
    bias: float = -10.0
    """initial bias, learned; -2.71 where both sides start from trained, frozen networks"""
    lr: PositiveFloat | None = None
    """learning rate of both; null: ``train.lr``, which hardly moves them in a short run"""

    traits: ClassVar = LossTraits(learns=True)


class StructureOptions(Margin):
    """Defaults: sections 2.2 and 3.1."""

    margin: NonNegativeFloat = 0.1
    """Euclidean distance by which a negative must lie farther"""
    lambda1: NonNegativeFloat = 2.0
    """weight of the terms with a sentence as anchor"""
    lambda2: NonNegativeFloat = 0.0
    """weight of images against images; 0.1 in the paper for phrases. 0 in effect where every
    text has one image"""
    lambda3: NonNegativeFloat = 0.2
    """weight of sentences against sentences"""
    top: PositiveInt = 50
    """most triplets of a positive pair"""
    variant: Literal["paper", "topk_mean"] = "paper"
    """``topk_mean`` is the authors' code, with margin 0.05, lambda1 1.5, lambda3 0.05 (0.1 in
    the second repository) and top 10"""
    reduction: Literal["sum", "mean"] = "sum"
    """over the pairs of a batch. At the paper's batch size a sum is clipped at nearly every
    step, and ``train.grad_clip`` sets the step; ``topk_mean`` is always a mean"""

    # The Euclidean distance of unit vectors ranks as their cosine does, and as no other similarity.
    traits: ClassVar = LossTraits(similarities=("cosine",))

    @model_validator(mode="after")
    def _only_of_the_paper(self) -> Self:
        if self.variant == "topk_mean" and self.lambda2:
            raise ValueError("lambda2 must be 0 under topk_mean: the authors' code has no term of images")
        return self


class SumOptions(Margin):
    pass
