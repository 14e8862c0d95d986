"""The options and traits of losses."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import LossTraits


class Curriculum(Strict):
    """The base of the options of losses of margins."""

    curriculum: NonNegativeFloat = 0.0
    """epochs, parts of one too, over which the negatives that count become evenly fewer, the hardest staying: from all of
    the batch to those of the loss itself; 0: those alone, from the first step on"""


class CrclOptions(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    complementary: NonNegativeFloat = 5.0
    """weight of the negatives' part beside the cross entropy of the positives; 5 in the authors' code"""


class DeclOptions(Strict):
    tau: PositiveFloat = 0.1
    """temperature of the evidence"""
    margin: NonNegativeFloat = 0.2
    """of the hinge, in units of tanh of the similarity"""
    hardest: PositiveInt = 5
    """negatives of a row and of a column that the hinge counts; under scheme ``decl`` the fewest of them"""
    lambda1: NonNegativeFloat = 0.8
    """weight of the hinge"""
    lambda2: NonNegativeFloat = 0.1
    """weight of the divergence that takes evidence from negatives"""


class HalOptions(Strict):
    """The defaults train on small and large sets at every rate that was tried (docs/losses.md). Table 3 of the paper has gamma 30
    and eps 0.3 for MS-COCO (row 3.3), 60 and 0.7 for Flickr30k (row 3.8)."""

    gamma: PositiveFloat = 20.0
    """inverse temperature"""
    eps: float = 0.7
    """the similarity above which a negative starts to hurt"""
    variant: Literal["extended", "paper", "code"] = "extended"
    """``paper``, the authors' ``code``, or ``extended``: the paper's, which also pulls pairs together whose similarity is below 0"""

    # Similarities that are never above 0 would never reach the logarithm.
    traits: ClassVar = LossTraits(above_zero=True, stuck=True)


class HalEmnlpOptions(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, on the rescaled similarity, by which a positive must beat a negative (paper: 0.2)"""
    k: PositiveInt = 3
    """neighbours whose mean is taken (the paper's 3; 1 in its row 2.23)"""
    reading: Literal["A", "B"] = "A"
    """which point Eq. 4 leaves out of the neighbours, ``A`` the match of image and of text, ``B`` the other
    member of the cell; Eq. 2's wording, where t is the text of image i, speaks for A"""
    gradient: Literal["detached", "full"] = "detached"
    """``detached``, the exponent is a constant weight as in the self-tuning of Zelnik-Manor and Perona that it
    follows, or ``full``"""
    negatives: Literal["sum", "max"] = "sum"
    """``sum`` (Eq. 2, the paper's default) or ``max`` (Eq. 3, its MAX+HAL)"""

    traits: ClassVar = LossTraits(stuck=True)

    @model_validator(mode="after")
    def _comes_to_fewer(self) -> Self:
        if self.curriculum and self.negatives == "sum":
            raise ValueError("curriculum needs negatives: max; a sum counts all of them")
        return self


class HubOptions(Strict):
    """Defaults: the authors' code, but for ``tau``."""

    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    centrality: NonNegativeFloat = 0.3
    """how much more a pair weighs whose image or text is similar to the whole batch; 0: all weigh alike"""
    uniform: NonNegativeFloat = 1.0
    """weight of the distance from the plan; with 0 here and at ``centrality`` the loss is ``infonce``"""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.7
    """share of the plan in what similarities are drawn towards; the rest is the pair itself"""
    iterations: PositiveInt = 50
    """of Sinkhorn's algorithm"""


class InfonceOptions(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by; 0.05 in L2RM's paper and code"""
    learn: bool = False
    """it is where the temperature starts; its logarithm is trained with the model, and it stays at 0.01 or above (CLIP)"""
    lr: PositiveFloat | None = None
    """with ``learn``, its learning rate; null: ``train.lr``, under which a short run hardly moves it"""

    traits: ClassVar = LossTraits(learns=True)

    @model_validator(mode="after")
    def _of_what_is_learned(self) -> Self:
        if self.lr is not None and not self.learn:
            raise ValueError("lr is of a temperature that is learned; set learn: true")
        return self


class InfonceRceOptions(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by (0.05 in L2RM)"""
    floor: float = Field(1e-7, gt=0, lt=1)
    """1e-7 in the authors' code; the smaller, the dearer a probability given to a negative: ``-log(floor)``"""


class MaxOptions(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat its hard negative"""

    traits: ClassVar = LossTraits(stuck=True)


class RclOptions(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    method: Literal["log", "tan", "abs", "exp", "gce"] = "log"
    """what a negative's chance p costs"""
    q: Annotated[float, Field(gt=0, le=1)] = 0.5
    """of ``gce``. The authors' code has tau 0.05 and ``log``. q is 0.5 in its loss, and its training passes the
    option for the margin, 0.2"""


class SigmoidOptions(Strict):
    scale: PositiveFloat = 10.0
    """what similarities are multiplied by, at first; learned as its logarithm"""
    bias: float = -10.0
    """added to them, at first; learned. -2.71 where both sides start from frozen networks that have been trained"""
    lr: PositiveFloat | None = None
    """learning rate of both; null: ``train.lr``, under which a short run hardly moves them"""

    traits: ClassVar = LossTraits(learns=True)


class StructureOptions(Curriculum):
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

    # The Euclidean distance of unit vectors ranks as their cosine does, and as no other similarity.
    traits: ClassVar = LossTraits(similarities=("cosine",))

    @model_validator(mode="after")
    def _only_of_the_paper(self) -> Self:
        if self.variant == "topk_mean" and self.lambda2:
            raise ValueError("lambda2 must be 0 under topk_mean: the authors' code has no term of images")
        return self


class SumOptions(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat each negative"""
    hardest: PositiveInt | None = None
    """negatives of a row and of a column that count, the hardest; null: all"""

    @model_validator(mode="after")
    def _comes_to_fewer(self) -> Self:
        if self.curriculum and self.hardest is None:
            raise ValueError("curriculum needs hardest, the negatives that count at its end")
        return self
