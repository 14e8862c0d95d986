"""Samplers: every pair in its batch, nothing more than once, and the order of the generator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.project.registry import SAMPLERS

captions, images = SAMPLERS.load("captions"), SAMPLERS.load("images")
OWNERS = np.repeat([7, 3, 9, 4, 8, 1], [5, 5, 1, 4, 6, 2])
LENGTHS = np.random.default_rng(0).integers(3, 20, len(OWNERS))
TILED = np.tile([7, 3, 9, 4, 8, 1, 5], 4)[:26]


def _checked(member, owners: np.ndarray, lengths: np.ndarray, size: int, **options) -> list[np.ndarray]:
    """Batches that depend on the generator only; positions within range, no pair twice in a batch, no batch of one."""
    params = member.Params(**options)
    batches = member.batches(owners, lengths, size, params, np.random.default_rng(5))
    np.random.seed(0)
    again = member.batches(owners, lengths, size, params, np.random.default_rng(5))
    changed = member.batches(owners, lengths, size, params, np.random.default_rng(6))
    assert [chosen.tolist() for chosen in batches] == [chosen.tolist() for chosen in again]
    assert [chosen.tolist() for chosen in batches] != [chosen.tolist() for chosen in changed]
    for chosen in batches:
        assert len(chosen) > 1
        assert len(set(chosen.tolist())) == len(chosen)
        assert chosen.min() >= 0
        assert chosen.max() < len(owners)
    return batches


def test_every_pair_once():
    batches = _checked(captions, OWNERS, LENGTHS, 5)
    assert [len(chosen) for chosen in batches] == [5, 5, 5, 5, 3]
    assert sorted(np.concatenate(batches)) == list(range(23))


def test_a_last_batch_of_one_is_left_out():
    assert [len(chosen) for chosen in _checked(captions, OWNERS, LENGTHS, 11)] == [11, 11]


@given(st.integers(1, 4), st.integers(0, 20), st.integers(2, 9))
def test_extra_positives_are_other_captions_of_the_batch_s_images(each, seed, size):
    rng = np.random.default_rng(seed)
    owners = rng.integers(0, 8, 30)
    plain, more = (
        captions.batches(owners, owners, size, captions.Params(**options), np.random.default_rng(seed))
        for options in ({}, {"extra_positives": each})
    )
    for before, after in zip(plain, more, strict=True):
        assert after[: len(before)].tolist() == before.tolist()
        added = after[len(before) :].tolist()
        assert not set(added) & set(before.tolist())
        for image in np.unique(owners[before]):
            inside = (owners[before] == image).sum()
            free = (owners == image).sum() - inside
            assert (owners[added] == image).sum() == min(each, free) if added else free == 0
        assert set(owners[added]) <= set(owners[before])


@given(st.integers(0, 2), st.integers(1, 3), st.integers(0, 20), st.integers(2, 9))
def test_extra_pairs_bring_new_members_to_the_batch(texts_each, images_each, seed, size):
    """Many-to-many pairs: further texts of the batch's images that are not among its texts, and the reverse."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(56, 30, replace=False)
    owners, texts = cells // 7, cells % 7
    options = {"extra_positives": texts_each, "extra_images": images_each}
    plain, more = (
        captions.batches(owners, owners, size, captions.Params(**chosen), np.random.default_rng(seed), texts)
        for chosen in ({}, options)
    )
    for before, after in zip(plain, more, strict=True):
        assert after[: len(before)].tolist() == before.tolist()
        added = after[len(before) :]
        for side, opposite, each in ((owners, texts, texts_each), (texts, owners, images_each)):
            for number in np.unique(side[before]):
                new = [pair for pair in np.flatnonzero(side == number) if opposite[pair] not in opposite[before]]
                assert np.isin(new, added).sum() == min(each, len(new))
        sides = {(owners[pair] in owners[before], texts[pair] in texts[before]) for pair in added}
        assert sides <= {(True, False), (False, True)}
        assert len(set(after.tolist())) == len(after)


def test_extra_images_of_captions_with_one_image_are_none():
    plain, more = (
        captions.batches(OWNERS, LENGTHS, 5, captions.Params(extra_images=each), np.random.default_rng(0))
        for each in (0, 2)
    )
    assert [chosen.tolist() for chosen in more] == [chosen.tolist() for chosen in plain]


def test_buckets_have_captions_of_similar_length_and_every_pair_once():
    lengths = np.random.default_rng(1).integers(5, 60, 1000)
    owners = np.arange(1000)
    batches = _checked(captions, owners, lengths, 10, bucket=10)
    assert sorted(np.concatenate(batches)) == list(range(1000))
    assert [len(chosen) for chosen in batches] == [10] * 100
    spread = np.mean([np.ptp(lengths[chosen]) for chosen in batches])
    plain = captions.batches(owners, lengths, 10, captions.Params(), np.random.default_rng(5))
    assert spread < 0.3 * np.mean([np.ptp(lengths[chosen]) for chosen in plain])
    means = [lengths[chosen].mean() for chosen in batches[:10]]
    assert means != sorted(means), "the batches of a pool come in random order"


def test_a_bucket_that_is_not_full_loses_nothing():
    batches = _checked(captions, np.arange(47), np.arange(47), 10, bucket=3)
    assert sorted(np.concatenate(batches)) == list(range(47))
    assert [len(chosen) for chosen in batches] == [10, 10, 10, 10, 7]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_image_once_with_the_wanted_number_of_captions(count):
    batches = _checked(images, TILED, np.ones_like(TILED), 4, captions=count)
    owners = np.concatenate([np.unique(TILED[chosen]) for chosen in batches])
    assert sorted(owners) == sorted(np.unique(TILED)), "no image twice in an epoch"
    for chosen in batches:
        assert set(np.unique(TILED[chosen], return_counts=True)[1]) == {count}


def test_an_image_with_fewer_captions_gives_all():
    batches = _checked(images, np.array([1, 1, 1, 2, 3, 3]), np.ones(6), 3, captions=3)
    assert sorted(batches[0]) == [0, 1, 2, 3, 4, 5]


def test_every_caption_of_an_image_comes_up():
    drawn = set()
    for epoch in range(60):
        for chosen in images.batches(TILED, TILED, 4, images.Params(), np.random.default_rng(epoch)):
            drawn |= set(chosen.tolist())
    assert drawn == set(range(26))
