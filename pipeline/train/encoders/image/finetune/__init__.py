"""The features' own network inside the model, trained on or fixed, from pixels to the joint space (VSE++ EncoderImageFull)."""

from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import ImageEncoderTraits


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
    no_imgnorm: bool = False
    """leave the image side unnormalised (VSE0)"""
    use_abs: bool = False
    """absolute values after normalising (order)"""


TRAITS = ImageEncoderTraits(reads="pixels")
