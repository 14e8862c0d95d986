"""The tokenizer, the vocabulary and the ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.core.text import END, PAD, SPECIAL, START, UNK
from vse_pipe.extract.text_methods import Corpus, build_vocabulary, encode, tokenize
from vse_pipe.extract.texts import words as method


def test_tokens_are_lower_case_treebank_words():
    assert tokenize("A man's dog, running.") == ["a", "man", "'s", "dog", ",", "running", "."]


def test_words_below_the_count_are_left_out_and_order_is_count_then_word():
    assert build_vocabulary(["b a", "a b", "a c", "b d", "a"], min_count=2) == [*SPECIAL, "a", "b"]


def test_build_does_not_depend_on_the_order_of_captions():
    texts = ["red ball", "blue ball", "red cube", "a blue cube"]
    assert build_vocabulary(texts, 1) == build_vocabulary(texts[::-1], 1)


def test_a_caption_cannot_smuggle_in_a_special_token():
    assert build_vocabulary(["<pad>"] * 9, min_count=1).count("<pad>") == 1


def test_encode_marks_start_end_and_unknown_words_and_cuts_long_captions():
    words = [*SPECIAL, "a", "dog"]
    captions, cut = encode(["a dog", "a zebra", "a a a a"], words, max_words=3)
    tokens, lengths = captions.padded(np.array([1, 2, 0]))
    assert tokens.tolist() == [[START, 4, UNK, END, PAD], [START, 4, 4, 4, END], [START, 4, 5, END, PAD]]
    assert lengths.tolist() == [4, 5, 4]
    assert cut == 1


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_padding_equals_a_plain_loop(texts):
    words = build_vocabulary(texts, 1)
    captions, _ = encode(texts, words, max_words=8)
    tokens, lengths = captions.padded(np.arange(len(texts)))
    for row, text in enumerate(texts):
        inside = (words.index(word) if word in words else UNK for word in tokenize(text)[:8])
        assert tokens[row, : lengths[row]].tolist() == [START, *inside, END]
        assert (tokens[row, lengths[row] :] == PAD).all()


@pytest.mark.parametrize("text", ["", "   ", "\u2028", "\U0001f600"])
def test_odd_captions_have_at_least_start_and_end(text):
    captions, _ = encode([text], build_vocabulary([], 1), 10)
    assert captions.lengths[0] >= 2


def test_the_vocabulary_is_of_train_and_val_captions():
    corpus = Corpus(["a dog", "a cat", "a cow", "a dog"], ["train", "val", "test", "test"])
    params = method.Params(min_count=1, max_words=9)
    state = method.fit(corpus, params, 0)
    assert state.words == [*SPECIAL, "a", "cat", "dog"]
    tokens, cut = method.transform(corpus.texts, state, params)
    assert tokens.tokens.tolist() == [1, 4, 6, 2, 1, 4, 5, 2, 1, 4, 3, 2, 1, 4, 6, 2]
    assert cut == 0


def test_defaults_are_those_of_vsepp():
    assert method.Params().model_dump() == {"min_count": 4, "max_words": 100}


def test_terms_are_the_words_that_are_read():
    assert method.terms("A dog, a CAT!", method.Params(max_words=4)) == ["a", "dog", ",", "a"]
