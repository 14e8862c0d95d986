import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.project.registry import PROTOCOLS

member = PROTOCOLS.load("file")
RNG = np.random.RandomState(0)


@given(st.lists(st.integers(0, 5), min_size=7, max_size=40), st.permutations(range(6)))
def test_an_index_per_image_moves_all_captions_of_an_image(captions, index):
    shown = member.corrupt(np.array(captions), 6, np.array(index), RNG)
    assert shown.tolist() == [index[image] for image in captions]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=7, max_size=40))
def test_an_index_per_caption_is_what_is_shown(captions):
    true, index = (np.array(column) for column in zip(*captions, strict=True))
    assert member.corrupt(true, 6, index, RNG).tolist() == index.tolist()


def test_the_index_of_an_image_level_draw_repeats_that_draw():
    captions = np.repeat(np.arange(40), 5)
    drawn = PROTOCOLS.load("image").corrupt(captions, 40, 0.5, np.random.RandomState(7))
    for index in (drawn[::5], drawn):
        assert (member.corrupt(captions, 40, index, RNG) == drawn).all()


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, "A" * 64])
def test_the_digest_must_be_one(digest):
    with pytest.raises(ValueError, match="sha256"):
        PROTOCOLS.options("file")(path="a.npy", sha256=digest)
