"""Compiled loops: the sort of each dimension of a set of vectors, and one step of the GRU with its gradient.

The sort is for sets of some tens. It counts places by n^2 comparisons of contiguous rows; a sort of each column takes several
times as long.
"""

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

# Dimensions in a block: numbers and places of a set of 36 fit in the first-level cache.
_BLOCK = 64


@njit(cache=True, nogil=True, error_model="numpy")
def _compare(left, right, before, after):
    unit = np.int32(1)
    for d in range(_BLOCK):
        first = np.int32(right[d] >= left[d])
        before[d] += first
        after[d] += unit - first


@njit(cache=True, nogil=True, error_model="numpy")
def descending_forward(vectors, mask, ordered, places):
    """Write the masked rows to ``ordered`` (sets, n, dim), each column from the largest to the smallest, then 0; and the new
    place of each number to ``places`` (sets, n, dim) int16, -1 for rows outside of the mask. NaN stays in its column."""
    sets, rows, dim = vectors.shape
    numbers = np.zeros((rows, _BLOCK), vectors.dtype)
    counted = np.empty((rows, _BLOCK), np.int32)
    for index in range(sets):
        chosen = np.flatnonzero(mask[index])
        n = len(chosen)
        ordered[index, :n] = np.nan
        ordered[index, n:] = 0
        places[index] = -1
        for start in range(0, dim, _BLOCK):
            width = min(_BLOCK, dim - start)
            counted[:] = 0
            for i in range(n):
                numbers[i, :width] = vectors[index, chosen[i], start : start + width]
                for j in range(i):
                    _compare(numbers[i], numbers[j], counted[i], counted[j])
            for i in range(n):
                for d in range(width):
                    ordered[index, counted[i, d], start + d] = numbers[i, d]
                    places[index, chosen[i], start + d] = counted[i, d]


@njit(cache=True, nogil=True, error_model="numpy")
def descending_backward(gradient, places, flow):
    """Write the gradient of the vectors to ``flow``; ``gradient`` is that of the ordered vectors."""
    sets, rows, dim = places.shape
    for index in range(sets):
        for i in range(rows):
            for d in range(dim):
                place = places[index, i, d]
                flow[index, i, d] = gradient[index, place, d] if place >= 0 else 0


# One step of the GRU and of its gradient without the matrix products: each number is read and written once.
#
# PyTorch needs five passes over the gates forward and ten backward. Separate loops over a row let the compiler prove that the
# arrays are distinct and use vector instructions. Sums have a fixed order.


def _exp(x):
    """e^x; in compiled code only."""
    return math.exp(x)


@overload(_exp)
def _exp_of(x):
    """float64: the C library's function. float32: a polynomial (Cephes expf, 2 units in the last place) as vector code."""
    if x != types.float32:
        return lambda x: math.exp(x)
    highest, lowest, log2_e = np.float32(88.0), np.float32(-87.0), np.float32(1.44269504088896341)
    # log(2) in two parts. The first has few bits, so that products with it are exact.
    ln2, ln2_rest = np.float32(0.693359375), np.float32(-2.12194440e-4)
    c2, c3, c4 = np.float32(5.0000001201e-1), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
    c5, c6, c7 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
    unit, half, bias, mantissa = np.float32(1.0), np.float32(0.5), np.int32(127), np.int32(23)

    def exp(x):
        # NaN passes, because comparisons with it are false.
        x = highest if x > highest else x
        x = lowest if x < lowest else x
        power = np.floor(x * log2_e + half)
        rest = x - power * ln2 - power * ln2_rest
        series = ((((c7 * rest + c6) * rest + c5) * rest + c4) * rest + c3) * rest + c2
        return (series * rest * rest + rest + unit) * np.int32((np.int32(power) + bias) << mantissa).view(np.float32)

    return exp


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def gru_forward(table, places, hidden, previous, gates, linear, states):
    """Write r, z, n to ``gates`` (rows, 3 dim), the part of ``hidden`` for n to ``linear`` and the new state to ``states``.

    table[places]: W_i x + b_i; hidden: W_h h + b_h; previous: h.
    """
    rows, dim = previous.shape
    unit, two = previous.dtype.type(1), previous.dtype.type(2)
    for row in range(rows):
        read, recurrent, gate = table[places[row]], hidden[row], gates[row]
        for j in range(2 * dim):
            gate[j] = unit / (unit + _exp(-(read[j] + recurrent[j])))
        r, z, n, recurrent_n = gate[:dim], gate[dim : 2 * dim], gate[2 * dim :], linear[row]
        read, recurrent = read[2 * dim :], recurrent[2 * dim :]
        for j in range(dim):
            recurrent_n[j] = recurrent[j]
        for j in range(dim):
            # tanh(x) = 1 - 2 / (1 + exp(2x))
            n[j] = unit - two / (unit + _exp(two * (read[j] + r[j] * recurrent_n[j])))
        before, after = previous[row], states[row]
        for j in range(dim):
            after[j] = n[j] + z[j] * (before[j] - n[j])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def gru_backward(flow, gates, linear, previous, delta, new):
    """Write the gradient of W_h h + b_h to ``delta`` (rows, 3 dim) and that of n's sum to ``new``.

    flow: the gradient of the new state; afterwards the direct gradient of h, without the product.
    """
    rows, dim = previous.shape
    unit = previous.dtype.type(1)
    for row in range(rows):
        gate, d, dn, q, before = gates[row], flow[row], new[row], linear[row], previous[row]
        r, z, n = gate[:dim], gate[dim : 2 * dim], gate[2 * dim :]
        d_r, d_z, d_rn = delta[row, :dim], delta[row, dim : 2 * dim], delta[row, 2 * dim :]
        for j in range(dim):
            dn[j] = d[j] * (unit - z[j]) * (unit - n[j] * n[j])
        for j in range(dim):
            d_z[j] = d[j] * (before[j] - n[j]) * z[j] * (unit - z[j])
        for j in range(dim):
            d_r[j] = dn[j] * q[j] * r[j] * (unit - r[j])
        for j in range(dim):
            d_rn[j] = dn[j] * r[j]
        for j in range(dim):
            d[j] *= z[j]
