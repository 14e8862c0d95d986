import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.train.samplers.contract import check_contract
from vse_pipe.project.registry import SAMPLERS

member = SAMPLERS.load("captions")
OWNERS = np.repeat([7, 3, 9, 4, 8, 1], [5, 5, 1, 4, 6, 2])
LENGTHS = np.random.default_rng(0).integers(3, 20, len(OWNERS))


def test_contract():
    check_contract(member, OWNERS, LENGTHS, 4)


def test_every_pair_once():
    found = check_contract(member, OWNERS, LENGTHS, 5)
    assert [len(chosen) for chosen in found] == [5, 5, 5, 5, 3]
    assert sorted(np.concatenate(found)) == list(range(23))


def test_a_last_batch_of_one_is_left_out():
    found = check_contract(member, OWNERS, LENGTHS, 11)
    assert [len(chosen) for chosen in found] == [11, 11]


@given(st.integers(1, 4), st.integers(0, 20), st.integers(2, 9))
def test_extra_positives_are_other_captions_of_the_batch_s_images(each, seed, size):
    rng = np.random.default_rng(seed)
    owners = rng.integers(0, 8, 30)
    plain = member.batches(owners, owners, size, member.Params(), np.random.default_rng(seed))
    more = member.batches(owners, owners, size, member.Params(extra_positives=each), np.random.default_rng(seed))
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
def test_extra_pairs_bring_what_the_batch_has_not(texts_each, images_each, seed, size):
    """Of many-to-many pairs: further texts of its images that are not among its texts, and the reverse."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(56, 30, replace=False)
    owners, said = cells // 7, cells % 7
    options = {"extra_positives": texts_each, "extra_images": images_each}
    plain, more = (
        member.batches(owners, owners, size, member.Params(**chosen), np.random.default_rng(seed), said)
        for chosen in ({}, options)
    )
    for before, after in zip(plain, more, strict=True):
        assert after[: len(before)].tolist() == before.tolist()
        added = after[len(before) :]
        for side, other, each in ((owners, said, texts_each), (said, owners, images_each)):
            for one in np.unique(side[before]):
                new = [pair for pair in np.flatnonzero(side == one) if other[pair] not in other[before]]
                assert np.isin(new, added).sum() == min(each, len(new))
        known = [(owners[pair] in owners[before], said[pair] in said[before]) for pair in added]
        assert set(known) <= {(True, False), (False, True)}
        assert len(set(after.tolist())) == len(after)


def test_where_every_caption_has_one_image_there_is_no_further():
    plain, more = (
        member.batches(OWNERS, LENGTHS, 5, member.Params(extra_images=each), np.random.default_rng(0))
        for each in (0, 2)
    )
    assert [chosen.tolist() for chosen in more] == [chosen.tolist() for chosen in plain]


def test_buckets_hold_captions_of_like_length_and_still_every_pair_once():
    lengths = np.random.default_rng(1).integers(5, 60, 1000)
    owners = np.arange(1000)
    found = check_contract(member, owners, lengths, 10, bucket=10)
    assert sorted(np.concatenate(found)) == list(range(1000))
    assert [len(chosen) for chosen in found] == [10] * 100
    spread = np.mean([np.ptp(lengths[chosen]) for chosen in found])
    plain = member.batches(owners, lengths, 10, member.Params(), np.random.default_rng(5))
    assert spread < 0.3 * np.mean([np.ptp(lengths[chosen]) for chosen in plain])
    means = [lengths[chosen].mean() for chosen in found[:10]]
    assert means != sorted(means), "the batches of a pool come in random order"


def test_a_bucket_that_is_not_full_loses_nothing():
    found = check_contract(member, np.arange(47), np.arange(47), 10, bucket=3)
    assert sorted(np.concatenate(found)) == list(range(47))
    assert [len(chosen) for chosen in found] == [10, 10, 10, 10, 7]
