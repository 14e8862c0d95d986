"""The tokenizer by itself is nltk's own."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import word_tokenize

from tests.rules.sources import ROOT
from vse_pipe.extract.text_engine.treebank import word_tokenizer

_words = word_tokenizer()
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
    assert _words(text) == word_tokenize(text, preserve_line=True)


def test_it_is_found_without_the_rest_which_can_still_be_imported():
    code = (
        "import sys; from vse_pipe.extract.text_engine.treebank import word_tokenizer; words = word_tokenizer();"
        "assert not {'nltk', 'sklearn', 'scipy', 'pandas'} & set(sys.modules), sorted(sys.modules);"
        "import nltk; from nltk.tokenize import word_tokenize;"
        "text = \"a dog's tail\"; assert words(text) == word_tokenize(text, preserve_line=True) == ['a', 'dog', \"'s\", 'tail']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
