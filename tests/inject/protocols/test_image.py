import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.project.registry import PROTOCOLS

member = PROTOCOLS.load("image")


@given(captions=st.lists(st.integers(0, 7), min_size=1, max_size=40), rate=st.floats(0, 1), seed=st.integers(0, 99))
def test_equals_plain_loops(captions, rate, seed):
    ours = member.corrupt(np.array(captions), 8, rate, np.random.RandomState(seed))
    expected = naive.image_level(captions, 8, rate, np.random.RandomState(seed))
    assert ours.tolist() == expected


def test_all_captions_of_an_image_move_together():
    captions = np.repeat(np.arange(50), [1 + i % 4 for i in range(50)])
    shown = member.corrupt(captions, 50, 0.5, np.random.RandomState(0))
    assert all(len(set(shown[captions == image])) == 1 for image in range(50))
    moved = {image for image in range(50) if (shown[captions == image] != image).any()}
    assert 15 <= len(moved) <= 25
