"""The features' own network inside the model, trained on or fixed, from pixels to the joint space (VSE++ EncoderImageFull)."""

from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import ImageEncoderTraits


class Params(Strict):
    """The network, its weights and how images are scaled for it are those of the run's ``features``.

    after: epochs that train the other layers before the network is trained too; before: what those epochs see, the stored
    ``features`` or ``crops``. lr: of the network, its decay counted from ``after`` (VSE++: a tenth of the other layers'
    first rate). restart: from ``after`` on the other layers train at ``lr`` too, as when the authors' code is run again
    with ``--resume --finetune --learning_rate 2e-5``; false: they go on with ``train.lr`` and its decay. trainable: false keeps
    the network fixed, so that only its input varies (RC). batch_norm: ``frozen`` keeps the statistics of its batch
    normalisation, ``updated`` lets training move them, as the authors' code does. crop: ``random`` (RandomResizedCrop) or
    ``center``, the extraction's own. flip: mirror every second image. no_imgnorm: leave the image side unnormalised
    (VSE0). use_abs: absolute values after normalising (order).
    """

    after: NonNegativeInt = 0
    before: Literal["features", "crops"] = "features"
    lr: PositiveFloat = 2e-5
    restart: bool = False
    trainable: bool = True
    batch_norm: Literal["frozen", "updated"] = "frozen"
    crop: Literal["random", "center"] = "random"
    flip: bool = True
    no_imgnorm: bool = False
    use_abs: bool = False


TRAITS = ImageEncoderTraits(reads="pixels")
