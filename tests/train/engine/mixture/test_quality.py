import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vse_pipe.train.mixture import against_truth, auc


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(points):
    score = np.array([value for value, _ in points], float)
    wanted = np.array([flag for _, flag in points])
    ordered = [(a > b) + 0.5 * (a == b) for a in score[wanted] for b in score[~wanted]]
    found = auc(score, wanted)
    assert (found is None) == (not ordered)
    if ordered:
        np.testing.assert_allclose(found, np.mean(ordered))


def test_figures_of_a_split():
    posterior = np.array([0.9, 0.8, 0.3, 0.1])
    mismatched = np.array([False, True, False, True])
    found = against_truth(posterior, posterior > 0.5, mismatched)
    assert found == {"mismatched": 0.5, "auc": 0.75, "precision": 0.5, "recall": 0.5}


def test_what_is_undefined_is_none():
    posterior = np.array([0.9, 0.8])
    found = against_truth(posterior, posterior > 0.5, np.zeros(2, bool))
    assert found == {"mismatched": 0.0, "auc": None, "precision": None, "recall": None}
