"""The features' own network inside the model, trained on or fixed, from pixels to the joint space (VSE++ EncoderImageFull)."""

from typing import Literal, Self

from pydantic import NonNegativeInt, PositiveFloat, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import ImageEncoderTraits
from vse_pipe.train.engine.encoder.branch_options import Options


class Params(Strict):
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
    branch: Options = Options()
    """of head two_branch: the values of image encoder ``two_branch``"""
    no_imgnorm: bool = False
    """leave the image side unnormalised (VSE0); of head linear"""
    use_abs: bool = False
    """absolute values after normalising (order); of head linear"""

    @model_validator(mode="after")
    def _of_its_head(self) -> Self:
        if self.head == "two_branch" and (self.no_imgnorm or self.use_abs):
            raise ValueError("no_imgnorm and use_abs are of head linear; a branch has its own in branch.use_abs")
        return self


TRAITS = ImageEncoderTraits(reads="pixels")
