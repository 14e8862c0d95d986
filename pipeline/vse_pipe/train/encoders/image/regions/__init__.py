"""One linear layer on every region of an image (SCAN EncoderImagePrecomp), for similarities that compare fragments."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import ImageEncoderTraits


class Params(Strict):
    no_imgnorm: bool = False
    """leave the region vectors unnormalised"""


# It gives (B, R, embed_size): for similarities of fragments, and for no other.
TRAITS = ImageEncoderTraits(regions=True)
