"""The compiled loop under mutual proximity, for float32: logarithms of the normal distribution function from a table.

The table is linear between 1,024 values a unit. That is off by 1e-7 below 0 and by less than 1e-5 of the value, which is
what rounding z to float32 does, where the value approaches 0. Beyond the table each row is computed again by itself.
"""

import math
from functools import cache

import numpy as np
import torch
from numba import njit

_PER_UNIT, _EDGE = 1024, 13.0


@cache
def table() -> np.ndarray:
    """``log F(z)`` for z from -13 to 13, float32."""
    z = torch.linspace(-_EDGE, _EDGE, int(2 * _EDGE * _PER_UNIT) + 1, dtype=torch.float64)
    return torch.special.log_ndtr(z).float().numpy()


@njit(cache=True, nogil=True)
def _exact(z):
    if z > -_EDGE:
        return (
            math.log1p(-0.5 * math.erfc(z * math.sqrt(0.5)))
            if z > 0
            else math.log(0.5 * math.erfc(-z * math.sqrt(0.5)))
        )
    return -0.5 * z * z - math.log(-z * math.sqrt(2 * math.pi))


@njit(cache=True, nogil=True)
def _row(row, centre, sharpness, mean, item_sharpness, values, out):
    """Fill ``out`` and return the smallest z met."""
    edge, per_unit, last = np.float32(_EDGE), np.float32(_PER_UNIT), len(values) - 2
    lowest = np.float32(0.0)
    for item in range(len(row)):
        query_z = (row[item] - centre) * sharpness
        item_z = (row[item] - mean[item]) * item_sharpness[item]
        lowest = min(lowest, query_z, item_z)
        place = (min(query_z, edge) + edge) * per_unit
        below = min(max(int(place), 0), last)
        total = values[below] + (place - np.float32(below)) * (values[below + 1] - values[below])
        place = (min(item_z, edge) + edge) * per_unit
        below = min(max(int(place), 0), last)
        out[item] = total + values[below] + (place - np.float32(below)) * (values[below + 1] - values[below])
    return lowest


@njit(cache=True, nogil=True)
def certainty(strip, centre, sharpness, mean, item_sharpness, values, out, start, stop):
    """``log F_q + log F_n`` of the rows from start to stop. strip, out: float32 (rows, items); centre, sharpness: mean and
    inverse deviation of each row, (rows,); mean, item_sharpness: the same of each item, (items,); values: ``table()``."""
    for number in range(start, stop):
        row = strip[number]
        lowest = _row(row, centre[number], sharpness[number], mean, item_sharpness, values, out[number])
        if lowest <= -_EDGE:
            for item in range(len(row)):
                query_z = float(row[item] - centre[number]) * sharpness[number]
                item_z = float(row[item] - mean[item]) * item_sharpness[item]
                out[number, item] = _exact(query_z) + _exact(item_z)
