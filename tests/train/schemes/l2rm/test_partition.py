import numpy as np
import pytest

from vse_pipe.core.errors import PipelineError
from vse_pipe.train.engine.mixture import beta
from vse_pipe.train.schemes.l2rm.partition import Partition

SAMPLED = [np.arange(0, 8), np.arange(8, 16), np.arange(16, 20)]


def _split(clean: np.ndarray) -> Partition:
    losses = np.where(clean, 0.1, 0.9)
    return Partition(losses, beta.fit(losses), clean)


def _clean(matched: int, pairs: int = 20) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.arange(pairs) < matched)


def _batches(clean: np.ndarray, size: int = 4, seed: int = 0) -> list[np.ndarray]:
    return _split(clean).batches(size, SAMPLED, np.random.default_rng(seed))


def test_matched_pairs_come_first_and_mismatched_ones_are_gone_through_again():
    clean = _clean(14)
    found = _batches(clean)
    assert [len(chosen) for chosen in found] == [8, 8, 8]
    for chosen in found:
        assert clean[chosen].tolist() == [True] * 4 + [False] * 4
    matched = np.concatenate([chosen[:4] for chosen in found])
    assert len(set(matched.tolist())) == 12
    # Six mismatched pairs fill one batch, and each batch draws them anew.
    assert all(len(set(chosen[4:].tolist())) == 4 for chosen in found)
    assert len({tuple(chosen[4:]) for chosen in found}) > 1


def test_batches_follow_from_the_generator():
    same = [np.concatenate(_batches(_clean(14), seed=seed)).tolist() for seed in (0, 0, 1)]
    assert same[0] == same[1] != same[2]


def test_subsets_smaller_than_a_batch_make_a_smaller_batch():
    few_mismatched = _batches(_clean(17))
    assert [len(chosen) for chosen in few_mismatched] == [7] * 4
    few_matched = _batches(_clean(3))
    assert [len(chosen) for chosen in few_matched] == [7]


def test_nothing_mismatched_leaves_the_sampler_s_batches():
    found = _batches(np.ones(20, bool))
    assert [chosen.tolist() for chosen in found] == [chosen.tolist() for chosen in SAMPLED]
    assert not _split(np.ones(20, bool)).rematches


def test_one_mismatched_pair_is_left_out():
    clean = np.ones(20, bool)
    clean[9] = False
    found = _batches(clean)
    assert sorted(np.concatenate(found).tolist()) == [pair for pair in range(20) if pair != 9]


@pytest.mark.parametrize(("matched", "trains"), [(0, False), (1, False), (2, True)])
def test_fewer_than_two_matched_pairs_do_not_train(matched, trains):
    assert _split(_clean(matched)).trains is trains


def test_an_epoch_always_has_a_batch():
    clean = np.array([True, False, True])
    losses = np.where(clean, 0.1, 0.9)
    split = Partition(losses, beta.fit(losses), clean)
    found = split.batches(2, [np.array([1, 0])], np.random.default_rng(0))
    assert [sorted(chosen.tolist()) for chosen in found] == [[0, 2]]


def test_the_threshold_is_of_the_posterior():
    losses = np.concatenate([np.linspace(0, 0.3, 60), np.linspace(0.5, 1, 40)])
    strict, loose = (Partition.of(losses, "lower_mean", threshold) for threshold in (0.99, 0.01))
    posterior = strict.mixture.posterior
    np.testing.assert_array_equal(strict.clean, posterior > 0.99)
    np.testing.assert_array_equal(loose.clean, posterior > 0.01)
    assert strict.clean.sum() < loose.clean.sum()


def test_losses_that_are_no_numbers_are_refused():
    with pytest.raises(PipelineError, match="not finite"):
        Partition.of(np.array([0.1, np.nan] * 10), "lower_mean", 0.5)
