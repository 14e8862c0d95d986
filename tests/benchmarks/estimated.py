"""How often an interval of ``evaluate.approximate`` holds the recall of an exact evaluation, simulated: ``python -m tests.benchmarks.estimated``.

A query is a hit with probability R; one that is none is found to be one with the probability given as ``excess``, which is what an index
that misses items does under ``nns``. Some queries are drawn and ranked exactly. Beside it stands how often the bootstrap of the
found hits alone would hold R.
"""

import argparse
import sys

import numpy as np
from scipy.stats import binom

from vse_pipe.ranking.confidence.estimated import excess, interval


def held(rng: np.random.Generator, recall: float, over: float, queries: int, sample: int) -> tuple[bool, bool, float]:
    exact = rng.random(queries) < recall
    found = exact | (rng.random(queries) < over)
    share = found.mean()
    # The percentile bootstrap of a mean of hits, without its draws.
    ends = (100 * binom.ppf([0.025, 0.975], queries, share) / queries).tolist()
    drawn = rng.choice(queries, sample, replace=False)
    low, high = interval(100 * share, ends, [excess(found[drawn], exact[drawn], queries)])
    return low <= 100 * recall <= high, ends[0] <= 100 * recall <= ends[1], high - low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    for recall in (0.1, 0.5, 0.9):
        for over in (0.0, 0.001, 0.01, 0.1):
            each = [held(rng, recall, over, options.queries, options.sample) for _ in range(options.rounds)]
            ours, bare, width = np.mean(each, axis=0)
            sys.stdout.write(
                f"R {100 * recall:3.0f}%, excess {100 * over:4.1f}%: held {100 * ours:5.1f}%, without the sample {100 * bare:5.1f}%, width {width:.2f} points\n"
            )


if __name__ == "__main__":
    main()
