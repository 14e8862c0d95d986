import math

import numpy as np
import pytest
import torch

from tests.naive import judged as naive
from vse_pipe.ranking.metrics import graded


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_against_loops(ties):
    rng = np.random.default_rng(0)
    own, others = (rng.integers(0, 2, (count, 5)).astype(np.float32) for count in (30, 80))
    others = others[~(others == own[0]).all(axis=1)]  # so that the first query has no item of its own labels
    scores = rng.integers(0, 8, (30, len(others))).astype(np.float32)
    apart = graded.distances(torch.from_numpy(own), torch.from_numpy(others))
    found = graded.r_precisions(torch.from_numpy(scores), apart, ties).numpy()
    named = [[set(np.flatnonzero(row).tolist()) for row in side] for side in (own, others)]
    assert math.isnan(found[0, 0])
    for query, row in enumerate(scores.tolist()):
        for most in graded.DIFFERENCES:
            wanted = naive.pmrp(row, named[0][query], named[1], most, ties)
            assert wanted is None or found[query, most] == pytest.approx(wanted)
            assert (wanted is None) == math.isnan(found[query, most])


def test_average_lies_between():
    rng = np.random.default_rng(3)
    apart = torch.from_numpy(rng.integers(0, 4, (50, 40)).astype(np.float32))
    scores = torch.from_numpy(rng.integers(0, 3, (50, 40)).astype(np.float32))
    worst, mean, best = (
        graded.r_precisions(scores, apart, ties).nanmean() for ties in ("pessimistic", "average", "optimistic")
    )
    assert worst < mean < best


def test_a_collapsed_model_finds_nothing_unless_everything_is_plausible():
    scores = torch.zeros(2, 10)
    apart = torch.tensor([[0.0] * 4 + [5.0] * 6, [0.0] * 10])
    assert graded.r_precisions(scores, apart, "pessimistic").tolist() == [[0.0] * 3, [1.0] * 3]
