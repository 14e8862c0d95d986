"""Addresses are read back as they were written, and ordinary file names stay file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.pictures.address import Box, Cell, TarMember, cut, parse, path_of

NUMBERS = st.integers(0, 10**17)
NAMES = st.text(st.characters(exclude_characters="\0/"), min_size=1)


@given(offset=NUMBERS, size=NUMBERS, name=NAMES)
def test_members(offset: int, size: int, name: str) -> None:
    member = TarMember("a/train-0.tar", offset, size, name)
    assert parse(str(member)) == member
    assert path_of(str(member)) == "a/train-0.tar"


@given(row=NUMBERS, column=NAMES)
def test_cells(row: int, column: str) -> None:
    cell = Cell("a/b.parquet", row, column)
    assert parse(str(cell)) == cell
    assert path_of(str(cell)) == "a/b.parquet"


@pytest.mark.parametrize(
    "file",
    [
        "a.jpg",
        "a/b.tar",
        "b.parquet",
        "a.tar::1::x",
        "a.tar::-1:2::x",
        "a.zip::1:2::x",
        "b.parquet::x::image",
        "a::b.jpg",
        "a.jpg#xywh=1,2,3",
        "a.jpg#xywh=-1,2,3,4",
        "a.jpg#xywh=1,2,3,4 ",
        "a.jpg#xywh=percent:1,2,3,4",
        "a.jpg#xywh=1.0,2,3,4",
        "#xywh=1,2,3,4",
        "a.jpg#xywh=١,2,3,4",
    ],
)
def test_plain_names(file: str) -> None:
    assert parse(file) == path_of(file) == file
    assert cut(file) == (file, None)


def test_a_member_cannot_pass_for_another_shard() -> None:
    name = "evil.tar::5:6::x.jpg"
    assert parse(f"good.tar::10:20::{name}") == TarMember("good.tar", 10, 20, name)


@given(numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), name=NAMES)
def test_boxes_of_anything(numbers: tuple[int, int, int, int], name: str) -> None:
    for whole in (f"x/{name}", str(TarMember("a.tar", 1, 2, name)), str(Cell("b.parquet", 3, name))):
        boxed = Box(*numbers).of(whole)
        assert cut(boxed) == (whole, Box(*numbers))
        assert parse(boxed) == parse(whole)
        assert path_of(boxed) == path_of(whole)
