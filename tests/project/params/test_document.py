"""The two parsers of params.yaml read the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vse_pipe.project.params import typed


def _parsed(text: str) -> object:
    try:
        return typed.parse_yaml(text)
    except ValueError as error:
        return str(error)


def _read_by_either(text: str) -> None:
    found = _parsed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed, "_plain", lambda text: False)
        assert found == _parsed(text)


SCALARS = [
    "1e-05",
    "yes",
    "012",
    "1:30",
    "1_000",
    "{a:1}",
    "[a:b]",
    "",
    "[",
    "[" * 98 + "]" * 98,
    "[" * 100 + "]" * 100,
]
PLAIN = [*(f"a: {one}" for one in SCALARS), "<<: {a: 1}", "- - a", "? [a]\n: b", "? [[a]]\n: b", "a: 1\na: 2"]


@pytest.mark.parametrize("text", PLAIN)
def test_either_parser_reads_the_same(text):
    """The one in C is asked first, where it is known to read what the other reads."""
    assert typed._plain(text)
    _read_by_either(text)


@pytest.mark.parametrize("text", ["a: !", "a: |#", "a: &x [1]\nb: *x", "%YAML 1.1\n---\na: yes", "a: b\x85c"])
def test_what_the_parsers_read_otherwise_is_for_one(text):
    assert not typed._plain(text)
    _read_by_either(text)


@given(st.text("[]{}:,-?#'\"0123456789 \n"))
@settings(max_examples=300)
def test_either_parser_reads_the_same_of_signs(text):
    _read_by_either(text)


def test_values_lie_up_to_a_hundred_levels_deep():
    found = typed.parse_yaml("[" * 100 + "]" * 100)
    for _ in range(99):
        (found,) = found
    assert found == []
    with pytest.raises(ValueError, match="more than 100 levels"):
        typed.parse_yaml("[" * 101 + "]" * 101)
