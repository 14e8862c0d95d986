"""Lists of different lengths, laid one after the other in a flat array."""

import numpy as np


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The flat positions of many ranges: ``[s, s + 1, ..., s + n - 1]`` for each start and length, joined.

    starts, lengths: int64 (lists,).
    """
    ends = lengths.cumsum()
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
