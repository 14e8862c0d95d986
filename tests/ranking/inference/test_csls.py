import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, matrices, own, whole
from vse_pipe.ranking import scores as scores_module
from vse_pipe.ranking.inference import csls


def rescored(scores: np.ndarray, **params) -> np.ndarray:
    return whole(csls.rerank(dense(scores), own(scores), csls.Params(**params)))


@pytest.mark.parametrize("strip", [1, 3, 256])
@pytest.mark.parametrize("two_sided", [True, False])
def test_against_loops(two_sided, strip, monkeypatch):
    monkeypatch.setattr(scores_module, "STRIP", strip)

    @settings(deadline=None, max_examples=20)
    @given(matrices(), st.integers(1, 12))
    def check(scores, k):
        found = rescored(scores, k=k, two_sided=two_sided)
        np.testing.assert_allclose(found, naive.csls(scores.tolist(), k, two_sided), atol=1e-12)

    check()


def test_defaults_are_those_of_muse():
    assert csls.Params() == csls.Params(k=10, two_sided=True)
