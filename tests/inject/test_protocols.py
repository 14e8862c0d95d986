"""Which image each caption is shown with."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.project.registry import PROTOCOLS

AS_IS, CAPTION, FILE, IMAGE = (PROTOCOLS.load(name) for name in ("as_is", "caption", "file", "image"))
RNG = np.random.RandomState(0)
FIFTY = np.repeat(np.arange(50), 5)


@given(captions=st.lists(st.integers(0, 7), min_size=1, max_size=40), rate=st.floats(0, 1), seed=st.integers(0, 99))
def test_draws_equal_plain_loops(captions, rate, seed):
    def shown(protocol) -> list[int]:
        return protocol.corrupt(np.array(captions), 8, rate, np.random.RandomState(seed)).tolist()

    assert shown(CAPTION) == naive.caption_level(captions, rate, np.random.RandomState(seed))
    assert shown(IMAGE) == naive.image_level(captions, 8, rate, np.random.RandomState(seed))


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=7, max_size=40)


@settings(max_examples=20)
@given(ROWS, st.permutations(range(6)))
def test_an_index_moves_all_captions_of_an_image_or_is_what_is_shown(rows, order):
    captions, shown = (np.array(column) for column in zip(*rows, strict=True))
    assert FILE.corrupt(captions, 6, np.array(order), RNG).tolist() == [order[image] for image in captions]
    assert FILE.corrupt(captions, 6, shown, RNG).tolist() == shown.tolist()
