import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.project.registry import PROTOCOLS

member = PROTOCOLS.load("caption")


@given(captions=st.lists(st.integers(0, 7), min_size=1, max_size=40), rate=st.floats(0, 1), seed=st.integers(0, 99))
def test_equals_plain_loops(captions, rate, seed):
    ours = member.corrupt(np.array(captions), 8, rate, np.random.RandomState(seed))
    expected = naive.caption_level(captions, rate, np.random.RandomState(seed))
    assert ours.tolist() == expected


def test_captions_of_an_image_scatter_and_the_multiset_of_images_stays():
    captions = np.repeat(np.arange(50), 5)
    shown = member.corrupt(captions, 50, 1.0, np.random.RandomState(0))
    assert sorted(shown) == sorted(captions)
    assert any(len(set(shown[captions == image])) > 2 for image in range(50))
