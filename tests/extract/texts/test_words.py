"""Texts by their words: tokens and vocabularies, counts, tf-idf and means of word vectors, against plain loops."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import word_tokenize

from tests.extract.texts.project import WORDS, as_npz, vectors
from tests.naive import extract as naive
from vse_pipe.core.errors import InputError
from vse_pipe.core.text import END, PAD, SPECIAL, START, UNK
from vse_pipe.extract.text_methods import Corpus, bags, build_vocabulary, encode, tokenize
from vse_pipe.extract.texts import mean_vectors, tfidf
from vse_pipe.extract.texts import words as method

_PARTS = ["a", "Dog", "x-y", "2", ",", ", ", ".", " ", "  ", "-", "--", "cannot", "Wanna", "lemmes", "we-gonna", "e.g."]
_CASES = ["", "two dogs don't run, ok.", 'I\'m gonna "win" $3.50 (e.g. 3,000) -- now...', "שלום \U0001f415 it's"]
_JOINED = st.lists(st.sampled_from([*_PARTS, "\n", "K"])).map("".join)


@given(st.one_of(st.sampled_from([*_CASES, f"a dog{' ' * 5000}!"]), st.text(max_size=60), _JOINED))
def test_words_are_those_of_nltk(text):
    assert tokenize(text) == word_tokenize(text.lower(), preserve_line=True)


def test_tokens_are_lower_case_treebank_words_and_terms_those_that_are_read():
    assert tokenize("A man's dog, running.") == ["a", "man", "'s", "dog", ",", "running", "."]
    assert method.terms("A dog, a CAT!", method.Params(max_words=4)) == ["a", "dog", ",", "a"]


def test_the_vocabulary_is_of_frequent_words_of_captions_in_any_order():
    """By count, then word. A caption cannot smuggle in a special token."""
    assert build_vocabulary(["b a", "a b", "a c", "b d", "a"], min_count=2) == [*SPECIAL, "a", "b"]
    texts = ["red ball", "blue ball", "red cube", "a blue cube"]
    assert build_vocabulary(texts, 1) == build_vocabulary(texts[::-1], 1)
    assert build_vocabulary(["<pad>"] * 9, min_count=1).count("<pad>") == 1


def test_encode_marks_start_end_and_unknown_words_and_cuts_long_captions():
    captions, cut = encode(["a dog", "a zebra", "a a a a"], [*SPECIAL, "a", "dog"], max_words=3)
    tokens, lengths = captions.padded(np.array([1, 2, 0]))
    assert tokens.tolist() == [[START, 4, UNK, END, PAD], [START, 4, 4, 4, END], [START, 4, 5, END, PAD]]
    assert (lengths.tolist(), cut) == ([4, 5, 4], 1)
    for odd in ("", "   ", "\u2028", "\U0001f600"):
        assert encode([odd], build_vocabulary([], 1), 10)[0].lengths[0] >= 2, odd


@given(st.lists(st.lists(st.sampled_from("abcdx"), max_size=8), max_size=6))
def test_counts_equal_a_plain_loop(captions: list[list[str]]) -> None:
    found = bags(captions, ["a", "b", "c"])
    assert (found.shape, found.dtype) == ((len(captions), 3), np.float64)
    assert found.toarray().tolist() == [[caption.count(word) for word in "abc"] for caption in captions]


TRAIN = ["Two dogs running .", "a dog runs on the grass", "the children's dogs", "men and children on stairs"]
TERMS = [["two", "dog", "run"], ["dog", "run", "grass"], ["child", "dog"], ["man", "child", "stair"]]
CORPUS = Corpus([*TRAIN, "grass grass dog", "It is a zebra !"], ["train"] * 4 + ["val", "test"])


def test_tfidf_equals_a_plain_loop() -> None:
    params = tfidf.Params()
    state = tfidf.fit(CORPUS, params, 0)
    assert state.words == ["dog", "child", "run", "grass", "man", "stair", "two"]
    expected = naive.tfidf([*TERMS, ["grass", "grass", "dog"], ["zebra"]], TERMS, state.words)
    found = tfidf.transform(CORPUS.texts, state, params)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[5].any()


def test_the_dictionary_is_the_most_frequent_terms_of_the_train_captions() -> None:
    few = tfidf.Params(size=2)
    state = tfidf.fit(CORPUS, few, 0)
    assert (state.words, state.about) == (["dog", "child"], {"terms": 7})
    assert tfidf.transform(["zebra dog"], state, few).shape == (1, 2)
    with pytest.raises(InputError, match="no terms are left in the train captions"):
        tfidf.fit(Corpus(["the of", "dog"], ["train", "test"]), few, 0)


TEXTS = ["A red dog", "red red ball", "unknown words", "a big caf\u00e9", "DOG"]


def mean_of(tmp_path: Path, **options):
    """What is learnt of these texts, and vectors of any texts."""
    params = mean_vectors.Params(vectors=str(as_npz(tmp_path / "v.npz", WORDS, vectors())), **options)
    state = mean_vectors.fit(Corpus(TEXTS, ["train", "train", "val", "test", "test"]), params, 0)
    return state, lambda texts: mean_vectors.transform(texts, state, params)


def test_means_equal_a_plain_loop(tmp_path: Path) -> None:
    state, transformed = mean_of(tmp_path)
    table, found = dict(zip(WORDS, vectors().tolist(), strict=True)), transformed(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [naive.mean_vector(text.lower().split(), table, 4) for text in TEXTS], rtol=1e-6)
    assert found[2].tolist() == [0, 0, 0, 0]
    # Only the words of the captions are kept, and the others counted.
    assert state.words == ["ball", "big", "caf\u00e9", "dog", "red"]
    assert state.arrays["vectors"].shape == (5, 4)
    assert state.about["words"] == {"known_words": 5, "unknown_words": 3, "known_share_of_text": 8 / 12}
