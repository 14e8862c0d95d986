import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import matrices
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics.recall import Truth, best_ranks

POLICIES = ["pessimistic", "average", "optimistic"]
few_values = matrices(elements=st.integers(0, 3).map(float))


def ranks(scores: np.ndarray, correct: list, ties: str) -> list[float]:
    truth = Truth.listed([np.array(items) for items in correct], scores.shape[1])
    return best_ranks(torch.from_numpy(scores), slice(0, len(scores)), truth, ties).tolist()


@pytest.mark.parametrize("ties", POLICIES)
def test_against_loops(ties):
    @settings(deadline=None)
    @given(few_values, st.data())
    def check(scores, data):
        some = st.sets(st.integers(0, scores.shape[1] - 1), min_size=1).map(sorted)
        correct = [data.draw(some) for _ in scores]
        expected = [naive.best_rank(row, set(items), ties) for row, items in zip(scores.tolist(), correct, strict=True)]
        assert ranks(scores, correct, ties) == expected

    check()


@settings(deadline=None)
@given(few_values)
def test_policies_are_ordered_and_average_lies_between(scores):
    correct = [[0]] * len(scores)
    worst, middle, best = (np.array(ranks(scores, correct, ties)) for ties in POLICIES)
    assert (worst >= best).all()
    np.testing.assert_array_equal(middle, (worst + best) / 2)


@pytest.mark.parametrize(("ties", "expected"), [("pessimistic", 99.0), ("average", 49.5), ("optimistic", 0.0)])
def test_a_collapsed_model_gets_no_credit_unless_asked(ties, expected):
    assert ranks(np.zeros((1, 100)), [[42]], ties) == [expected]


def test_several_correct_items_do_not_stand_in_each_others_way():
    assert ranks(np.array([[0.5, 0.5, 0.5, 0.5]]), [[0, 1, 2]], "pessimistic") == [1.0]


def test_the_block_may_start_anywhere():
    scores = torch.tensor([[0.1, 0.9], [0.9, 0.1]])
    truth = Truth.by_image(np.array([7, 8, 8]), np.array([7, 8]))
    assert best_ranks(scores, slice(1, 3), truth, "pessimistic").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    """NaN compares false with everything: counted, it would rank first."""
    with pytest.raises(InputError, match="scores of queries 0 to 1 hold NaN or infinite values"):
        ranks(np.array([[0.1, 0.2], [bad, 0.3]]), [[0], [0]], "pessimistic")
