import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.train import vocabulary
from pipeline.train.vocabulary import END, PAD, START, UNK


def test_tokens_are_lower_case_treebank_words():
    assert vocabulary.tokenize("A man's dog, running.") == ["a", "man", "'s", "dog", ",", "running", "."]


def test_words_below_the_count_are_left_out_and_order_is_count_then_word():
    words = vocabulary.build(["b a", "a b", "a c", "b d", "a"], min_count=2)
    assert words == ["<pad>", "<start>", "<end>", "<unk>", "a", "b"]


def test_build_does_not_depend_on_the_order_of_captions():
    texts = ["red ball", "blue ball", "red cube", "a blue cube"]
    assert vocabulary.build(texts, 1) == vocabulary.build(texts[::-1], 1)


def test_a_caption_cannot_smuggle_in_a_special_token():
    words = vocabulary.build(["<pad>"] * 9, min_count=1)
    assert words.count("<pad>") == 1


def test_encode_marks_start_end_and_unknown_words_and_cuts_long_captions():
    words = [*vocabulary.SPECIAL, "a", "dog"]
    captions, cut = vocabulary.encode(["a dog", "a zebra", "a a a a"], words, max_words=3)
    tokens, lengths = captions.padded(np.array([1, 2, 0]))
    assert tokens.tolist() == [[START, 4, UNK, END, PAD], [START, 4, 4, 4, END], [START, 4, 5, END, PAD]]
    assert lengths.tolist() == [4, 5, 4]
    assert cut == 1


def test_take_selects_captions():
    captions, _ = vocabulary.encode(["a", "b b", "c c c"], [*vocabulary.SPECIAL, "a", "b", "c"], 10)
    tokens, lengths = captions.take(np.array([2, 1])).padded(np.array([0]))
    assert lengths.tolist() == [5]
    assert tokens.tolist() == [[START, 6, 6, 6, END]]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_padding_equals_a_plain_loop(texts):
    words = vocabulary.build(texts, 1)
    captions, _ = vocabulary.encode(texts, words, max_words=8)
    tokens, lengths = captions.padded(np.arange(len(texts)))
    for row, text in enumerate(texts):
        expected = [
            START,
            *(words.index(word) if word in words else UNK for word in vocabulary.tokenize(text)[:8]),
            END,
        ]
        assert tokens[row, : lengths[row]].tolist() == expected
        assert (tokens[row, lengths[row] :] == PAD).all()


@pytest.mark.parametrize("text", ["", "   ", "\u2028", "\U0001f600"])
def test_odd_captions_have_at_least_start_and_end(text):
    captions, _ = vocabulary.encode([text], vocabulary.build([], 1), 10)
    assert captions.lengths[0] >= 2
