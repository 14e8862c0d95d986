"""How many queries a matching answers, the compiled loop under ``vse_pipe.ranking.engine.relaxation``."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def answered(rows, columns, lost, starts, items):
    """Queries with a correct item among those they are matched with, but for those that are ``lost``. rows, columns: int64 (pairs,),
    in any order; the correct items of query q are ``items[starts[q]:starts[q + 1]]``."""
    found = np.zeros(len(starts) - 1, np.bool_)
    for pair in range(len(rows)):
        row = rows[pair]
        for place in range(starts[row], starts[row + 1]):
            found[row] |= items[place] == columns[pair]
    found[lost] = False
    return found.sum()
