"""What may be an id, against a loop over the texts."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core import text_ids

_LETTERS = st.sampled_from(list("aAbB01-_/. \t\u200b\u00e9\u00c9\U0001f408"))


def _wrong_rows(ids: list[str]) -> set[int]:
    """Every row with which something is wrong, the later ones of a repetition."""
    found, seen = set(), set()
    for row, text in enumerate(ids):
        unseen = any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") for letter in text)
        if not text.strip() or text != text.strip() or len(text) > text_ids.LONGEST or unseen or text.lower() in seen:
            found.add(row)
        seen.add(text.lower())
    return found


@given(st.lists(st.text(_LETTERS, max_size=4), max_size=8))
def test_an_objection_is_to_a_row_that_deserves_it_and_there_is_one_where_any_does(ids):
    found, expected = text_ids.objection(pa.array(ids, pa.string())), _wrong_rows(ids)
    assert (found is None) == (not expected)
    assert found is None or found[0] in expected


@pytest.mark.parametrize(
    ("ids", "row", "said"),
    [
        (["a", ""], 1, "'' is empty"),
        (["a", "b "], 1, "'b ' begins or ends with a space"),
        (["x" * 201], 0, f"'{'x' * 40}'... is longer than 200 characters"),
        (["a", "b\nc"], 1, r"'b\nc' holds a control character"),
        (["a", "b", "a"], 2, "'a' is given twice"),
        (["Cat.jpg", "cat.jpg"], 1, "'cat.jpg' differs from 'Cat.jpg' in capitals only"),
    ],
)
def test_what_is_wrong_is_said_on_one_line(ids, row, said):
    assert text_ids.objection(pa.array(ids)) == (row, said)


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [(["1", "-20", "0"], True), (["1", "007"], False), (["1", "1e3"], False), (["1" * 19], False), (["1", "a"], False)],
)
def test_numbers_are_those_that_python_would_write_so(ids, numbers):
    assert text_ids.are_numbers(pa.array(ids)) is numbers
