"""Counts of words in captions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.extract.texts._bags import bags

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
