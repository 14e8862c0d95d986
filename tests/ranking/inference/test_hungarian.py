import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from tests.naive import evaluate as naive
from tests.ranking.dense import dense
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.ranking.inference import hungarian
from vse_pipe.ranking.inference.options import HungarianOptions as Params
from vse_pipe.ranking.matching import Allowance


def matched(scores: np.ndarray, k: int, mode: str = "rows") -> tuple[np.ndarray, np.ndarray]:
    found = next(hungarian.match(dense(scores), [Allowance(k, 7.0)], Params(mode=mode)))
    return found.rows, found.columns


def total(scores: np.ndarray, k: int, mode: str = "rows") -> float:
    return scores[matched(scores, k, mode)].sum()


@pytest.fixture(params=[(20, 10), (-2, 1)], ids=["plenty", "one by one"])
def candidates(request, monkeypatch):
    """How many items of a query the first program gets beyond 3k and a further one more; a few take many programs."""
    monkeypatch.setattr(hungarian, "_FIRST", request.param[0])
    monkeypatch.setattr(hungarian, "_MORE", request.param[1])


@pytest.mark.usefixtures("candidates")
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (4, 2), (2, 5)])
def test_size_and_sum_are_those_of_trying_every_matching(shape):
    @settings(deadline=None, max_examples=8)
    @given(
        arrays(np.float64, shape, elements=st.integers(-3, 3).map(float)),
        st.integers(1, 2),
        st.sampled_from(["rows", "literal"]),
    )
    def check(scores, k, mode):
        rows, columns = matched(scores, k, mode)
        quota = Allowance(k).quota(*shape, mode)
        assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows)
        assert np.bincount(rows).max() <= k
        assert np.bincount(columns).max() <= quota
        assert (len(rows), scores[rows, columns].sum()) == pytest.approx(naive.heaviest(scores.tolist(), k, quota))

    check()


@pytest.mark.usefixtures("candidates")
@pytest.mark.parametrize("shape", [(60, 300), (300, 60), (80, 80)])
def test_at_one_it_is_the_assignment_of_scipy(shape):
    scores = np.random.default_rng(0).standard_normal(shape) + np.random.default_rng(1).standard_normal(shape[1])
    copies = Allowance(1).quota(*shape, "rows")
    rows, columns = linear_sum_assignment(np.repeat(scores, copies, axis=1), maximize=True)
    expected = sorted(zip(rows.tolist(), (columns // copies).tolist(), strict=True))
    assert sorted(zip(*(part.tolist() for part in matched(scores, 1)), strict=True)) == expected


def test_an_offset_and_a_scale_change_nothing():
    scores = np.random.default_rng(0).standard_normal((12, 12))
    for changed in (scores * 1e-6 + 3, scores * 1e6 - 5e6):
        assert sorted(zip(*matched(changed, 2), strict=True)) == sorted(zip(*matched(scores, 2), strict=True))


def test_above_its_limit_it_refuses_with_the_numbers():
    with pytest.raises(
        UsageError, match=r"hungarian: 4 x 5 are 20 pairs, more than inference.hungarian.most_pairs \(19\)"
    ):
        next(hungarian.match(dense(np.zeros((4, 5))), [Allowance(1)], Params(most_pairs=19)))
    assert Params().most_pairs >= 5000 * 1000


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    with pytest.raises(InputError, match="NaN or infinite"):
        total(np.array([[0.1, bad], [0.2, 0.3]]), 1)
