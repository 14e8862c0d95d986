import numpy as np
import pytest

from vse_pipe.core.errors import PipelineError
from vse_pipe.train.engine.mixture import gaussian
from vse_pipe.train.schemes.ncr.division import Division


def _losses(low: int, high: int) -> np.ndarray:
    return np.concatenate([0.1 + 0.01 * np.sin(np.arange(low)), 0.9 + 0.02 * np.cos(np.arange(high))])


def _steps(clean: np.ndarray, size: int = 4, noisy: bool = True, seed: int = 0):
    return Division(clean.astype(float), clean).steps(size, noisy, np.random.default_rng(seed))


def test_pairs_are_clean_above_the_threshold_of_their_probability():
    losses = _losses(30, 10)
    found = Division.of(losses, 0.5)
    assert found.clean.tolist() == [True] * 30 + [False] * 10
    np.testing.assert_array_equal(found.probability, gaussian.fit(losses).posterior)
    assert found.doubt is None


@pytest.mark.parametrize(("pairs", "noisy"), [(60, 1), (250, 3)])
def test_where_all_are_above_it_one_in_a_hundred_is_taken_for_noisy(pairs, noisy):
    found = Division.of(np.linspace(0, 1, pairs) ** 2, 0.0)
    assert int((~found.clean).sum()) == noisy
    assert found.probability[~found.clean].max() <= found.probability[found.clean].min()


def test_equal_losses_divide_nothing():
    found = Division.of(np.full(40, 0.2), 0.5)
    assert found.clean.all()
    assert found.trains
    assert "equal" in found.doubt


def test_losses_that_are_no_numbers_are_refused():
    with pytest.raises(PipelineError, match=r"not finite; lower train\.lr"):
        Division.of(np.array([0.1, np.nan] * 9), 0.5)


def test_a_pass_over_the_clean_pairs_takes_the_noisy_ones_as_often_as_needed():
    clean = np.arange(20) < 14
    found = _steps(clean)
    assert [kind for _, kind in found] == [True, False] * 4
    labelled = [pairs for pairs, kind in found if kind]
    assert sorted(np.concatenate(labelled).tolist()) == list(range(14))
    unlabelled = [pairs for pairs, kind in found if not kind]
    assert [len(pairs) for pairs in unlabelled] == [4, 2, 4, 2]
    assert sorted(np.concatenate(unlabelled[:2]).tolist()) == list(range(14, 20))


def test_the_noisy_pairs_can_be_left_out():
    found = _steps(np.arange(20) < 14, noisy=False)
    assert [kind for _, kind in found] == [True] * 4


@pytest.mark.parametrize(
    ("clean", "kinds", "trains"),
    [(20, [True] * 5, True), (19, [True] * 5, True), (2, [True, False], True), (1, [], False), (0, [], False)],
)
def test_few_pairs_of_either_kind(clean, kinds, trains):
    chosen = np.arange(20) < clean
    assert Division(chosen.astype(float), chosen).trains is trains
    assert [kind for _, kind in _steps(chosen)] == kinds


def test_a_pair_that_would_be_alone_is_left_out():
    assert [len(pairs) for pairs, kind in _steps(np.arange(20) < 9) if kind] == [4, 4]


def test_subsets_smaller_than_a_batch_are_a_batch():
    assert [len(pairs) for pairs, _ in _steps(np.arange(20) < 14, size=1000)] == [14, 6]


def test_order_follows_from_the_generator():
    one, again, other = (
        np.concatenate([pairs for pairs, _ in _steps(np.arange(20) < 14, seed=seed)]).tolist() for seed in (0, 0, 1)
    )
    assert one == again != other
