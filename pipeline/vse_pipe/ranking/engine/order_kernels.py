"""Order violations without an array of (images, texts, dim): numba's loops under similarity ``order``.

Rows are treated one by one; the compiler fixes the order in which they sum over ``dim``. NaN stays NaN.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sum_squares(images, texts, out):
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
def add_weighted(vectors, others, weights, texts, out):
    """Add the sums over ``others`` of ``weights * max(0, text - image)`` to ``out`` (vectors, dim).

    Under the hardest negative most weights are 0, and these cost nothing.
    """
    zero = vectors.dtype.type(0)
    for row in range(len(vectors)):
        vector, total = vectors[row], out[row]
        for column in range(len(others)):
            weight, other = weights[row, column], others[column]
            if weight == zero:
                continue
            for j in range(vector.size):
                above = vector[j] - other[j] if texts else other[j] - vector[j]
                above = zero if above < zero else above
                total[j] += weight * above
