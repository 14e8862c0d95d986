"""Cosine: the inner product of unit vectors."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.similarities.options import CosineOptions as Params


def score(
    images: Float[Tensor, "images dim"], texts: Float[Tensor, "texts dim"], params: Params
) -> Float[Tensor, "images texts"]:
    """``images @ texts.T``; a cosine when both sides are unit vectors, the default of the encoders.

    With ``image.no_imgnorm`` (VSE0 of the authors' code) the image side keeps its length."""
    return images @ texts.T
