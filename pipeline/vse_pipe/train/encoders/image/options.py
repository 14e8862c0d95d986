"""The options and traits of image encoders, and the options of heads, which text encoders share."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.registry import ImageEncoderTraits


class BranchShape(Strict):
    """A branch of a two-branch network. Defaults: the paper's for tf-idf and Fisher vectors."""

    hidden: Width | Annotated[list[Width], Field(min_length=1)] = 2048
    """outputs of the layers before the last. The paper: 2048 then 512; mean word2vec: 1024 then 256; phrases: 8192 then
    4096"""
    nonlinear: bool = True
    """false: one layer and unit length (the paper's "Linear" rows), without hidden, dropout and batch_norm"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """after each ReLU, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of a vector's numbers left out in training; the others are scaled up. On tf-idf it drops words"""
    batch_norm: Literal["last", "first", "none"] = "last"
    """after the last layer (paper), before each ReLU (authors' code), or none"""
    use_abs: bool = False
    """takes absolute values at the end (order)"""


class ResidualShape(Strict):
    """A head of one layer plus a branch of two."""

    hidden: Width = 1024
    """outputs of the branch's first layer; in VSE-infinity half of ``train.embed_size``"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """of these, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of a vector's numbers left out in training; the others are scaled up. On tf-idf it drops words"""
    use_abs: bool = False
    """takes absolute values at the end (order)"""


class FinetuneOptions(Strict):
    """The network, its weights and how images are scaled for it are those of the run's ``features``."""

    after: NonNegativeInt = 0
    """epochs that train the other layers alone"""
    before: Literal["features", "crops"] = "features"
    """input of those epochs: stored features, or crops"""
    lr: PositiveFloat = 2e-5
    """of the network, decaying from ``after`` on (VSE++: a tenth of the other layers' first rate)"""
    restart: bool = False
    """trains the other layers at ``lr`` too from ``after`` on, like the authors' second call with ``--resume --finetune
    --learning_rate 2e-5``; false: they keep ``train.lr`` and its decay"""
    trainable: bool = True
    """false keeps the network fixed; only its input varies (RC)"""
    batch_norm: Literal["frozen", "updated"] = "frozen"
    """``updated`` lets training move the running statistics, as the authors' code does"""
    crop: Literal["random", "center"] = "random"
    """RandomResizedCrop, or the crop of ``extract``"""
    flip: bool = True
    """mirrors every second image"""
    head: Literal["linear", "two_branch"] = "linear"
    """one layer, or the image branch of Wang et al"""
    branch: BranchShape = BranchShape()
    """options of head two_branch, those of image encoder ``two_branch``"""
    no_imgnorm: bool = False
    """leaves image vectors unnormalised (VSE0); head linear only"""
    use_abs: bool = False
    """takes absolute values after normalising (order); head linear only"""

    traits: ClassVar = ImageEncoderTraits(reads="pixels")

    @model_validator(mode="after")
    def _of_its_head(self) -> Self:
        if self.head == "two_branch" and (self.no_imgnorm or self.use_abs):
            raise ValueError("no_imgnorm and use_abs are of head linear; a branch has its own in branch.use_abs")
        return self


class IdentityOptions(Strict):
    """No parameters."""

    traits: ClassVar = ImageEncoderTraits(learns=False)


class LinearOptions(Strict):
    no_imgnorm: bool = False
    """leaves image vectors unnormalised (VSE0)"""
    use_abs: bool = False
    """takes absolute values after normalising (order)"""


class PooledOptions(Strict):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the regions' vectors; ``gpo`` learns a weight for each place in the order of size"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of regions left out in training; 0.2 in the authors' code"""
    no_imgnorm: bool = False
    """leaves image vectors unnormalised"""
    use_abs: bool = False
    """takes absolute values after normalising (order)"""


class RegionsOptions(Strict):
    no_imgnorm: bool = False
    """leaves region vectors unnormalised"""

    # It gives (B, R, embed_size): for similarities of fragments, and for no other.
    traits: ClassVar = ImageEncoderTraits(regions=True)


class ResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""


class TwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""
