"""Average precision of many classes when every picture counts as often as it was drawn: compiled."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def by_class(weights, starts, finds, before_starts, before_pictures, before, truth_starts, truths, eleven):
    """float64 (draws, classes), 0 to 1; NaN where no picture with a true box of the class is drawn.

    weights: int64 (draws, pictures); the rest as ``vse_pipe.localize.engine.classes.Classes`` has it. Precision at a recall
    is the best at that recall or a larger one. The average precision is the area under that curve, or, for ``eleven``, its
    mean at the recalls 0, 0.1, ..., 1 (Everingham et al., IJCV 2015, section 3.4.1; IJCV 2010, section 4.2).
    """
    classes = len(starts) - 1
    found = np.full((len(weights), classes), np.nan)
    precision, recalled = np.empty(len(finds)), np.empty(len(finds), np.int64)
    for draw in range(len(weights)):
        for c in range(classes):
            wanted = 0
            for truth in range(truth_starts[c], truth_starts[c + 1]):
                wanted += weights[draw, truths[truth]]
            if wanted == 0:
                continue
            seen, right, kept = 0, 0, 0
            for find in range(starts[c], starts[c + 1]):
                for row in range(before_starts[find], before_starts[find + 1]):
                    seen += before[row] * weights[draw, before_pictures[row]]
                weight = weights[draw, finds[find]]
                if weight:
                    right += weight
                    precision[kept], recalled[kept] = right / seen, right
                    kept += 1
            best = area = 0.0
            for place in range(kept - 1, -1, -1):
                best = max(best, precision[place])
                earlier = recalled[place - 1] if place else 0
                if eleven:
                    area += best * (10 * recalled[place] // wanted - 10 * earlier // wanted + (place == 0)) / 11
                else:
                    area += best * (recalled[place] - earlier) / wanted
            found[draw, c] = area
    return found
