"""The rule against loops over histories."""

import numpy as np
import pytest

from vse_pipe.ranking.metrics.recall import NOISE, RISE, converged, waited


def _stops(rsums, patience, since=0):
    """The epoch after which a run ends, by a loop that remembers; None where it does not."""
    best, without = -1.0, 0
    for epoch, rsum in enumerate(rsums, 1):
        without = 0 if rsum > best or epoch <= since else without + 1
        best = max(best, rsum)
        if without == patience:
            return epoch
    return None


@pytest.mark.parametrize("seed", range(40))
def test_patience_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    rsums = rng.integers(0, 12, 20).tolist()  # with ties: the first of the best counts
    for patience in (1, 2, 3, 7):
        for since in (0, 4, 15):
            ended = next((n for n in range(1, 21) if waited(rsums[:n], since) >= patience), None)
            assert ended == _stops(rsums, patience, since)
            if ended is not None and ended > patience:
                assert converged(rsums[:ended], patience), "what patience ended has converged"


def test_a_curve_converges_when_its_last_epochs_hardly_rise():
    flat, rising = [100.0, 200.0, 250.0, 251.0, 250.5, 252.0], [100.0, 200.0, 250.0, 251.0, 252.0, 260.0]
    assert converged(flat)
    assert not converged(rising)
    edge = 250.0 / (1 - RISE)
    assert converged([250.0, 1, 2, edge - 1e-9])
    assert not converged([250.0, 1, 2, edge + 1e-9])
    assert converged(flat, patience=1)
    assert not converged(rising, patience=1)
    assert converged(rising[:-1], patience=2), "251 and 252 after 250"


def test_a_short_run_is_judged_by_the_epochs_after_its_first():
    assert converged([3.56, 3.56, 3.56])
    assert converged([3.56, 3.6])
    assert converged([3.0, 2.0, 1.0])
    assert not converged([100.0, 150.0])
    assert not converged([100.0, 150.0, 151.0])
    assert converged([100.0, 150.0, 151.0], patience=1)


def test_one_epoch_tells_nothing():
    assert not converged([])
    assert not converged([300.0])
    assert waited([]) == 0
    assert waited([5.0, 1.0], since=9) == 0


def test_half_a_point_is_noise_however_low_rsum_is():
    assert converged([3.2, 3.1, 3.5, 3.4, 3.6])
    assert converged([3.2, 3.1, 3.2 + NOISE])
    assert not converged([3.2, 3.1, 3.2 + NOISE + 1e-9])


def test_a_model_that_finds_nothing_at_all_has_not_risen():
    assert converged([0.0] * 5)
