"""Recall of all queries where an index finds what it finds, and a sample of them was ranked exactly too.

Of every query it is known whether it is a hit among what was found, h' (0 or 1), and of n queries drawn at random without
replacement whether it is one, h. ``mean h' - mean of (h' - h) over the sample`` is the difference estimator of survey sampling
(Cochran, Sampling Techniques, 1977, section 7.10), without bias whatever the index misses. What is left out by chance has two
sources that are not correlated: which queries there are at all, whose interval is the bootstrap's, and which of them were drawn. The
second is counted, not approximated: queries with h' > h are a binomial number at most as wide as that of drawing without
replacement, and so are those with h' < h (Clopper and Pearson, 1934). The two join as the root of the sum of squared distances, from
each end by itself (Zou and Donner, Statistics in Medicine 27, 2008), which needs no symmetry: of an index that misses nothing in the
sample it still says how much it may miss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

Hits = Bool[np.ndarray, " queries"]


@dataclass(frozen=True)
class Excess:
    """What found hits are above exact ones, in percent of the queries: the estimate, and between what it lies."""

    share: float
    low: float
    high: float

    def __add__(self, other: "Excess") -> "Excess":
        """Of the same sample: the ends add up, as if both erred together."""
        return Excess(self.share + other.share, self.low + other.low, self.high + other.high)


def excess(found: Hits, exact: Hits, queries: int, level: float = 0.95) -> Excess:
    """found, exact: of the sample; queries: from how many it was drawn, none of which are in doubt where it is all of them."""
    more, less = int((found & ~exact).sum()), int((exact & ~found).sum())
    share = 100.0 * (more - less) / len(found)
    if len(found) == queries:
        return Excess(share, share, share)
    from scipy.stats import binomtest

    # Each of the two shares has half of the level's doubt.
    above, below = (binomtest(one, len(found)).proportion_ci((1 + level) / 2, "exact") for one in (more, less))
    return Excess(share, 100.0 * (above.low - below.high), 100.0 * (above.high - below.low))


def interval(found: float, ends: Sequence[float], over: Sequence[Excess], highest: float = 100.0) -> list[float]:
    """[low, high] of the exact figure. found: that of what was found, with the bootstrap's ``ends``; over: its excess, from samples
    that are independent of each other; highest: what the figure can be."""
    middle = found - sum(one.share for one in over)
    low = middle - np.hypot.reduce([found - ends[0], *(one.high - one.share for one in over)])
    high = middle + np.hypot.reduce([ends[1] - found, *(one.share - one.low for one in over)])
    return [max(0.0, float(low)), min(highest, float(high))]
