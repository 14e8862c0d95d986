"""The options and traits of image encoders, and the options of heads, which text encoders share."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.traits import ImageEncoderTraits


class BranchShape(Strict):
    """Of a branch of a two-branch network. The defaults are the paper's for tf-idf and Fisher vectors."""

    hidden: Width | Annotated[list[Width], Field(min_length=1)] = 2048
    """outputs of the layers before the last, whose outputs are ``train.embed_size`` (paper: 2048 then 512; mean
    word2vec: 1024 then 256; phrases: 8192 then 4096)"""
    nonlinear: bool = True
    """false is the paper's "Linear" rows: one layer straight into unit length, so that hidden, dropout and
    batch_norm have no part"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """after each ReLU, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of the numbers of a vector left out at random, in training, the others scaled to its length: of tf-idf it is the
    vector of the caption without some of its words"""
    batch_norm: Literal["last", "first", "none"] = "last"
    """``last``, after the last layer (paper), ``first``, before each ReLU (the authors' code), or ``none``"""
    use_abs: bool = False
    """absolute values at the end (order)"""


class ResidualShape(Strict):
    """Of a residual head: a second branch beside the one layer."""

    hidden: Width = 1024
    """numbers between the two layers of the second branch (VSE-infinity: half of ``train.embed_size``)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """of these, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of the numbers of a vector left out at random, in training, the others scaled to its length: of tf-idf it is the
    vector of the caption without some of its words"""
    use_abs: bool = False
    """absolute values at the end (order)"""


class FinetuneOptions(Strict):
    """The network, its weights and how images are scaled for it are those of the run's ``features``."""

    after: NonNegativeInt = 0
    """epochs that train the other layers before the network is trained too"""
    before: Literal["features", "crops"] = "features"
    """what those epochs see, the stored ``features`` or ``crops``"""
    lr: PositiveFloat = 2e-5
    """of the network, its decay counted from ``after`` (VSE++: a tenth of the other layers' first rate)"""
    restart: bool = False
    """from ``after`` on the other layers train at ``lr`` too, as when the authors' code is run again with
    ``--resume --finetune --learning_rate 2e-5``; false: they go on with ``train.lr`` and its decay"""
    trainable: bool = True
    """false keeps the network fixed, so that only its input varies (RC)"""
    batch_norm: Literal["frozen", "updated"] = "frozen"
    """``frozen`` keeps the statistics of its batch normalisation, ``updated`` lets training move them, as the
    authors' code does"""
    crop: Literal["random", "center"] = "random"
    """``random`` (RandomResizedCrop) or ``center``, the extraction's own"""
    flip: bool = True
    """mirror every second image"""
    head: Literal["linear", "two_branch"] = "linear"
    """what is on top of the network, one layer or the image branch of Wang et al."""
    branch: BranchShape = BranchShape()
    """of head two_branch: the values of image encoder ``two_branch``"""
    no_imgnorm: bool = False
    """leave the image side unnormalised (VSE0); of head linear"""
    use_abs: bool = False
    """absolute values after normalising (order); of head linear"""

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
    """leave the image side unnormalised (VSE0)"""
    use_abs: bool = False
    """absolute values after normalising (order)"""


class PooledOptions(Strict):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the regions' vectors; ``gpo`` learns how much the largest, second largest, ... number of each dimension counts"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of the regions left out at random, in training (the authors: 0.2)"""
    no_imgnorm: bool = False
    """leave the image side unnormalised"""
    use_abs: bool = False
    """absolute values after normalising (order)"""


class RegionsOptions(Strict):
    no_imgnorm: bool = False
    """leave the region vectors unnormalised"""

    # It gives (B, R, embed_size): for similarities of fragments, and for no other.
    traits: ClassVar = ImageEncoderTraits(regions=True)


class ResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""


class TwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""
