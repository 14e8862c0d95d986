"""How far each pair is trusted, refined from visit to visit (CRCL, NeurIPS 2023)."""

from jaxtyping import Float
from torch import Tensor


def refined(
    last: Float[Tensor, " pairs"], chances: Float[Tensor, " pairs"], alpha: float, floor: float
) -> Float[Tensor, " pairs"]:
    """``alpha last + (1 - alpha) chances``, and 0 where that is below ``floor``.

    last: the targets of the visit before; chances: how probably the model takes each pair for matched. alpha 1 leaves
    the targets of a warm-up as they are but for the floor, as in the authors' code.
    """
    found = alpha * last + (1 - alpha) * chances
    return found.masked_fill(found < floor, 0)
