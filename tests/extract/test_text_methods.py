"""Counts of words in captions, and the words that have a vector."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import word_tokenize

from tests.extract.texts.project import as_npz
from vse_pipe.extract.text_methods import Corpus, bags, known_words, split
from vse_pipe.extract.texts import mean_vectors

WORDS = ["a", "b", "c"]


@given(st.lists(st.lists(st.sampled_from("abcdx"), max_size=8), max_size=6))
def test_counts_equal_a_plain_loop(captions: list[list[str]]) -> None:
    found = bags(captions, WORDS)
    assert found.shape == (len(captions), 3)
    assert found.toarray().tolist() == [[caption.count(word) for word in WORDS] for caption in captions]


def test_types_and_order_do_not_depend_on_the_captions() -> None:
    one, other = bags([["a", "b"], []], WORDS), bags([["b", "a"], []], WORDS)
    assert one.dtype == np.float64
    assert one.toarray().tolist() == other.toarray().tolist()


@pytest.mark.parametrize("value", [1e38, 1e20, 3.0, 1e-20])
def test_unit_length_at_every_size(tmp_path: Path, value: float) -> None:
    file = as_npz(tmp_path / "v.npz", ["a", "b"], np.array([[value, -value], [0, 0]], np.float32))
    params = mean_vectors.Params(vectors=str(file), unit=True)
    words, vectors, _ = known_words(Corpus(["a b"], ["train"]), params)
    assert words == ["a", "b"]
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.5**0.5, -(0.5**0.5)], [0, 0]], rtol=1e-6)


_PARTS = [
    "a",
    "Dog",
    "x-y",
    "2",
    ",",
    ", ",
    ".",
    " ",
    "  ",
    "-",
    "--",
    "cannot",
    "Wanna",
    "lemmes",
    "we-gonna",
    "e.g.",
    "\n",
    "K",
]
_CASES = [
    "",
    "two dogs don't run, ok.",
    'I\'m gonna "win" $3.50 (e.g. 3,000) -- now...',
    "שלום \U0001f415 it's",
    f"a dog{' ' * 5000}!",
]


@given(st.one_of(st.sampled_from(_CASES), st.text(max_size=60), st.lists(st.sampled_from(_PARTS)).map("".join)))
def test_words_are_those_of_nltk(text):
    assert split(text) == word_tokenize(text, preserve_line=True)
