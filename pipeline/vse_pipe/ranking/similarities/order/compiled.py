"""Order violations without an array of (images, texts, dim): numba's loops under ``score``.

Rows are treated one by one; the sum over ``dim`` is in vector registers, in an order that the compiler fixes. NaN stays NaN.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def squared(images, texts, out):
    """Write the sums over ``dim`` of ``max(0, text - image)^2`` to ``out`` (images, texts)."""
    zero = images.dtype.type(0)
    for i in range(len(images)):
        image = images[i]
        for t in range(len(texts)):
            text, total = texts[t], zero
            for j in range(image.size):
                above = text[j] - image[j]
                above = zero if above < zero else above
                total += above * above
            out[i, t] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def gathered(own, others, weights, texts, out):
    """Add the sums over ``others`` of ``weights * max(0, text - image)`` to ``out`` (own, dim).

    weights: (own, others); texts: whether ``own`` are the texts, or the images. Half of a gradient, whose weights are mostly
    0 under the hardest negative: those cost nothing.
    """
    zero = own.dtype.type(0)
    for row in range(len(own)):
        mine, total = own[row], out[row]
        for column in range(len(others)):
            weight, other = weights[row, column], others[column]
            if weight == zero:
                continue
            for j in range(mine.size):
                above = mine[j] - other[j] if texts else other[j] - mine[j]
                above = zero if above < zero else above
                total[j] += weight * above
