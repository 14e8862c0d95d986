import numpy as np
import pytest

from tests.train.samplers.contract import check_contract
from vse_pipe.project.registry import SAMPLERS

member = SAMPLERS.load("images")
OWNERS = np.tile([7, 3, 9, 4, 8, 1, 5], 4)[:26]


def test_contract():
    check_contract(member, OWNERS, np.ones_like(OWNERS), 3)


@pytest.mark.parametrize("captions", [1, 2, 3])
def test_each_image_once_with_as_many_captions_as_asked_for(captions):
    found = check_contract(member, OWNERS, np.ones_like(OWNERS), 4, captions=captions)
    shown = np.concatenate([np.unique(OWNERS[chosen]) for chosen in found])
    assert sorted(shown) == sorted(np.unique(OWNERS)), "no image twice in an epoch"
    for chosen in found:
        assert set(np.unique(OWNERS[chosen], return_counts=True)[1]) == {captions}


def test_an_image_with_fewer_captions_gives_all_it_has():
    found = check_contract(member, np.array([1, 1, 1, 2, 3, 3]), np.ones(6), 3, captions=3)
    assert sorted(found[0]) == [0, 1, 2, 3, 4, 5]


def test_every_caption_of_an_image_comes_up():
    seen = set()
    for epoch in range(60):
        for chosen in member.batches(OWNERS, OWNERS, 4, member.Params(), np.random.default_rng(epoch)):
            seen |= set(chosen.tolist())
    assert seen == set(range(26))
