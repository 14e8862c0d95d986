import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Words


def _some(lengths: list[int], seed: int = 0) -> Words:
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=(sum(lengths), 3)).astype(np.float32))
    return Words(vectors, torch.tensor(lengths))


LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@given(LENGTHS)
def test_padding_and_packing_are_inverse(lengths):
    words = _some(lengths)
    padded = words.padded()
    assert padded.shape == (len(lengths), max(lengths), 3)
    spoilt = torch.cat([padded, torch.full((len(lengths), 1, 3), torch.nan)], dim=1)
    again = Words.of(spoilt, words.lengths)
    assert torch.equal(again.vectors, words.vectors)


@given(LENGTHS, st.data())
def test_captions_are_taken_by_slice_and_by_place(lengths, data):
    words = _some(lengths)
    caption = words.vectors.split(lengths)
    first = data.draw(st.integers(0, len(lengths)))
    last = data.draw(st.integers(0, len(lengths)))
    part = words[first:last]
    assert torch.equal(part.vectors, torch.cat([words.vectors[:0], *caption[first:last]]))
    assert part.lengths.tolist() == lengths[first:last]
    places = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5))
    chosen = words.take(torch.tensor(places, dtype=torch.int64))
    assert torch.equal(chosen.vectors, torch.cat([words.vectors[:0], *(caption[place] for place in places)]))


def test_every_second_caption_is_no_slice_of_them():
    with pytest.raises(ValueError, match="in one piece, got a step of 2"):
        _some([2, 1, 3])[::2]


def test_parts_joined_are_the_whole():
    words = _some([2, 1, 3])
    whole = Words.cat([words[:1], words[1:]])
    assert torch.equal(whole.vectors, words.vectors)
    assert whole.lengths.tolist() == [2, 1, 3]
    assert len(whole) == 3


@pytest.mark.parametrize("lengths", [[2, 2], [3, 0], [1, 1, 1, 1]])
def test_lengths_that_do_not_fit_are_refused(lengths):
    with pytest.raises(InputError, match="do not fit 3 word vectors"):
        Words(torch.zeros(3, 2), torch.tensor(lengths))
