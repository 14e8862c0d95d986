"""Which pairs people should look at first."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray


def chosen(
    probability: Float[ndarray, " pairs"], losses: Float[ndarray, " pairs"], images: Int[ndarray, " pairs"], limit: int
) -> Int[ndarray, " chosen"]:
    """Places of the ``limit`` most suspect pairs, the most probable mismatch first, then the larger loss, then the
    earlier pair; one of each image, or the five captions of one wrong picture would fill the page."""
    order = np.lexsort((np.arange(len(losses)), -losses, -probability))
    _, first = np.unique(images[order], return_index=True)
    return order[np.sort(first)[:limit]]
