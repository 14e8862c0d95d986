import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import audit as naive
from vse_pipe.audit import measure
from vse_pipe.train import mixture as train_mixture
from vse_pipe.train.mixture import auc

# Few values, so that ties are the rule.
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


def _columns(pairs) -> tuple[np.ndarray, np.ndarray]:
    values, mismatched = zip(*pairs, strict=True)
    return np.array(values, float), np.array(mismatched)


@given(PAIRS)
def test_auc_counts_every_couple(pairs):
    values, mismatched = _columns(pairs)
    if mismatched.all() or not mismatched.any():
        assert auc(values, mismatched) is None
    else:
        assert auc(values, mismatched) == pytest.approx(naive.auc(values.tolist(), mismatched.tolist()))


@given(PAIRS)
def test_average_precision_walks_down_the_values(pairs):
    values, mismatched = _columns(pairs)
    if not mismatched.any():
        assert measure.average_precision(values, mismatched) is None
    else:
        expected = naive.average_precision(values.tolist(), mismatched.tolist())
        assert measure.average_precision(values, mismatched) == pytest.approx(expected)


@given(PAIRS, st.sampled_from([0.0, 0.4, 0.6, 1.0]))
def test_precision_and_recall(pairs, threshold):
    values, mismatched = _columns(pairs)
    found = measure.at_threshold(values / 5, mismatched, threshold)
    assert found == naive.precision_and_recall((values / 5).tolist(), mismatched.tolist(), threshold)


def test_auc_of_a_perfect_and_of_a_blind_order():
    mismatched = np.array([False, False, True, True])
    assert auc(np.arange(4.0), mismatched) == 1.0
    assert auc(np.zeros(4), mismatched) == 0.5
    assert measure.average_precision(np.zeros(4), mismatched) == 0.5


def test_histogram_counts_every_pair_once_by_its_truth():
    rng = np.random.default_rng(0)
    mismatched = rng.random(2000) < 0.4
    losses = np.where(mismatched, rng.beta(8, 3, 2000), rng.beta(2, 9, 2000)) * 3 + 1
    mixture = train_mixture.fit_beta(losses)
    table = measure.histogram(losses, mixture, mismatched)
    assert len(table) == measure.BINS
    assert (table.matched + table.mismatched == table.pairs).all()
    assert (table.matched.sum(), table.mismatched.sum()) == ((~mismatched).sum(), mismatched.sum())
    first = table.iloc[0]
    assert first.pairs == ((losses >= first.low) & (losses < first.high)).sum()
    assert (table.low.iloc[0], table.high.iloc[-1]) == (losses.min(), losses.max())
    # The mixture's densities are pairs per bin: they add up to all pairs and follow the truth.
    assert table.expected_matched.sum() + table.expected_mismatched.sum() == pytest.approx(2000, rel=0.02)
    assert table.expected_matched.sum() == pytest.approx((~mismatched).sum(), rel=0.1)


def test_histogram_without_truth_or_spread_has_empty_cells():
    table = measure.histogram(np.ones(20), train_mixture.fit_beta(np.ones(20)), None)
    assert table.pairs.tolist() == [20]
    assert table[["matched", "mismatched", "expected_matched", "expected_mismatched"]].isna().all(axis=None)
