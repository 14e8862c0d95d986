"""Captions that nltk does not see have the words that nltk gives them."""

from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import word_tokenize

from vse_pipe.extract.tokens import split

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
