from functools import partial

import numpy as np
import pytest
import torch

from tests.naive.losses import hinge
from tests.train.some import member, some_model, some_pairs
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.batch import sample_losses
from vse_pipe.train.scheme import groups, values_of_pairs

CPU = torch.device("cpu")


@pytest.mark.parametrize(("pairs", "size"), [(24, 8), (25, 8), (26, 8), (7, 8), (8, 8), (9, 8), (2, 8)])
def test_every_pair_is_in_one_group_of_at_least_two(pairs, size):
    found = groups(pairs, size, seed=1, epoch=2)
    assert sorted(np.concatenate(found).tolist()) == list(range(pairs))
    assert all(2 <= len(group) <= size + 1 for group in found)


def test_groups_follow_from_seed_and_epoch():
    first, again, other = (np.concatenate(groups(40, 8, 1, epoch)).tolist() for epoch in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("reduction", ["mean", "hardest"])
@pytest.mark.parametrize("masked", [False, True])
def test_losses_are_those_of_the_plain_loops(reduction, masked):
    pairs = some_pairs(24, each=3)
    model = some_model(pairs)
    work = groups(24, 8, 0, 0)
    judge = partial(sample_losses, margin=0.3, hardest=reduction == "hardest")
    found = values_of_pairs(model, pairs, work, CPU, judge, masked)
    for group in work:
        with torch.no_grad():
            images, texts = model.eval().encode(pairs.batch(group), CPU)
        owners = pairs.owners[group]
        same = (owners[:, None] == owners[None, :]) if masked else np.eye(len(group), dtype=bool)
        expected = hinge((images @ texts.T).tolist(), 0.3, reduction == "hardest", same.tolist())
        if reduction == "mean":
            expected = [share / len(group) for share in expected]
        np.testing.assert_allclose(found[group], expected, atol=1e-6)


def test_dropout_is_off_and_the_mode_comes_back():
    pairs = some_pairs()
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.9)).train()
    work = groups(24, 8, 0, 0)
    first, again = (values_of_pairs(model, pairs, work, CPU, sample_losses) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())


def test_pairs_left_out_are_not_a_number():
    pairs = some_pairs()
    found = values_of_pairs(some_model(pairs), pairs, [np.array([1, 5, 9])], CPU, sample_losses)
    assert np.flatnonzero(np.isfinite(found)).tolist() == [1, 5, 9]


def test_a_batch_of_one_pair_is_refused_and_the_mode_comes_back():
    pairs = some_pairs()
    model = some_model(pairs).train()
    with pytest.raises(InputError, match="at least 2 pairs"):
        values_of_pairs(model, pairs, [np.array([3])], CPU, sample_losses)
    assert model.training
