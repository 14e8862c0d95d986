"""tf-idf against a plain loop; which terms a caption has."""

import numpy as np
import pytest

from tests.naive import extract as naive
from vse_pipe.core.errors import InputError
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.texts import tfidf as method

TRAIN = ["Two dogs running .", "a dog runs on the grass", "the children's dogs", "men and children on stairs"]
TERMS = [["two", "dog", "run"], ["dog", "run", "grass"], ["child", "dog"], ["man", "child", "stair"]]
OTHER = ["grass grass dog", "It is a zebra !"]
CORPUS = Corpus([*TRAIN, *OTHER], ["train"] * 4 + ["val", "test"])


def test_vectors_equal_a_plain_loop() -> None:
    params = method.Params()
    state = method.fit(CORPUS, params, 0)
    assert state.words == ["dog", "child", "run", "grass", "man", "stair", "two"]
    expected = naive.tfidf([*TERMS, ["grass", "grass", "dog"], ["zebra"]], TERMS, state.words)
    found = method.transform(CORPUS.texts, state, params)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[5].any()


def test_the_dictionary_is_the_most_frequent_terms_of_the_train_captions() -> None:
    state = method.fit(CORPUS, method.Params(size=2), 0)
    assert state.words == ["dog", "child"]
    assert state.about == {"terms": 7}
    assert method.transform(["zebra dog"], state, method.Params(size=2)).shape == (1, 2)


def test_stop_words_and_word_forms_can_be_kept() -> None:
    params = method.Params(stop_words=False, lemmatise=False)
    words = method.fit(CORPUS, params, 0).words
    assert {"the", "dogs", "dog", "running", "'s", "children"} <= set(words)
    assert "." not in words


def test_a_lemma_that_is_a_stop_word_is_left_out() -> None:
    corpus = Corpus(["dogs were being", "a dog"], ["train", "train"])
    assert method.fit(corpus, method.Params(), 0).words == ["dog"]


def test_without_unit_length_the_longer_caption_has_the_longer_vector() -> None:
    params = method.Params(normalise=False)
    state = method.fit(CORPUS, params, 0)
    once, twice = method.transform(["dog", "dog dog"], state, params)
    assert twice[0] == pytest.approx(2 * once[0])
    assert once[0] == pytest.approx(np.log(5 / 4) + 1)


def test_no_terms_at_all() -> None:
    with pytest.raises(InputError, match="no terms are left in the train captions"):
        method.fit(Corpus(["the of", "dog"], ["train", "test"]), method.Params(), 0)


def test_defaults() -> None:
    assert method.Params().size == 3000
    assert method.Params().normalise


def test_terms_leave_stop_words_out():
    assert method.terms("The dogs are running", method.Params()) == ["dog", "run"]
