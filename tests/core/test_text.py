"""What may be an id, against a loop over the texts."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.core import text as core_text

_LETTERS = st.sampled_from(list("aAbB01-_/. \t\u200b\u00e9\u00c9\U0001f408"))


def _wrong_rows(ids: list[str]) -> set[int]:
    """Every row with which something is wrong, the later ones of a repetition."""
    found, seen = set(), set()
    for row, text in enumerate(ids):
        unseen = any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") for letter in text)
        if not text.strip() or text != text.strip() or len(text) > core_text.LONGEST or unseen or text.lower() in seen:
            found.add(row)
        seen.add(text.lower())
    return found


@given(st.lists(st.text(_LETTERS, max_size=4), max_size=8))
def test_an_objection_is_to_a_row_that_deserves_it_and_there_is_one_where_any_does(ids):
    found, expected = core_text.objection(pa.array(ids, pa.string())), _wrong_rows(ids)
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
    assert core_text.objection(pa.array(ids)) == (row, said)


def _is_number(text: str) -> bool:
    """Python writes it so, and int64 holds it."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and text == str(int(text)) and -(2**63) <= int(text) < 2**63


_EDGES = [
    sign * (edge + by)
    for edge in (0, 2**53, 10**17, 10**18, 2**63, 10**19)
    for by in (-2, -1, 0, 1)
    for sign in (1, -1)
]


@given(st.lists(st.integers(-(2**65), 2**65) | st.sampled_from(_EDGES), max_size=6), st.text(_LETTERS, max_size=3))
def test_a_number_is_what_python_writes_for_a_whole_number_that_int64_holds(numbers, text):
    ids = [*map(str, numbers), text]
    assert core_text.number_mask(pa.array(ids)).tolist() == [_is_number(one) for one in ids]


@pytest.mark.parametrize("number", _EDGES)
def test_each_edge_in_every_spelling(number):
    spellings = [str(number), f"+{number}", f"0{number}", f" {number}", f"{number}.0", f"{number}\n"]
    assert core_text.number_mask(pa.array(spellings)).tolist() == [_is_number(one) for one in spellings]
    assert core_text.are_numbers(pa.array([str(number)])) is (-(2**63) <= number < 2**63)
