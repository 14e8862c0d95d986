"""Addresses are read back as they were written, and ordinary file names stay file names."""

import contextlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import bombs
from tests.mutants import mutants, refusals
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.pictures import address
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
        boxed = Box(*numbers).address(whole)
        assert cut(boxed) == (whole, Box(*numbers))
        assert parse(boxed) == parse(whole)
        assert path_of(boxed) == path_of(whole)


ROWS = [bytes([row % 256]) * (row % 7 + 1) for row in range(100)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.parquet"
    structs = [{"bytes": row, "path": "x"} for row in ROWS]
    pq.write_table(pa.table({"plain": ROWS, "hub": structs, "other": ROWS}), path, row_group_size=9)
    return path


@pytest.fixture
def groups_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    found = []
    own = pq.ParquetFile.read_row_group

    def noted(self, group, columns=None, **options):
        found.append((group, *columns))
        return own(self, group, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    return found


@pytest.mark.parametrize("column", ["plain", "hub"])
def test_rows_in_order_read_each_row_group_once(file: Path, column: str, groups_read: list) -> None:
    assert [address.value(file, row, column) for row in range(100)] == ROWS
    leaf = "hub.bytes" if column == "hub" else "plain"
    assert groups_read == [(group, leaf) for group in range(12)]


def test_any_order(file: Path) -> None:
    rows = np.random.default_rng(0).permutation(100).tolist()
    assert [address.value(file, row, "plain") for row in rows] == [ROWS[row] for row in rows]


def test_threads_share_what_is_read(file: Path, groups_read: list) -> None:
    barrier = threading.Barrier(4)

    def first(row: int) -> bytes | None:
        barrier.wait(timeout=20)
        return address.value(file, row, "plain")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(first, range(4))) == ROWS[:4]
    assert groups_read == [(0, "plain")]


def test_a_file_that_changed_is_opened_again(file: Path) -> None:
    assert address.value(file, 0, "plain") == ROWS[0]
    pq.write_table(pa.table({"plain": [b"something else"]}), file)
    assert address.value(file, 0, "plain") == b"something else"


def test_large_row_groups_are_refused_and_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, groups_read: list
) -> None:
    monkeypatch.setattr(address, "LARGEST_GROUP", 10)
    with pytest.raises(
        InputError, match=r"p.parquet: a row group takes \d+ bytes of 'hub.bytes', .*smaller row_group_size"
    ):
        address.value(file, 0, "hub")
    assert groups_read == []


def test_a_damaged_page_is_named(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4:40] = bytes(36)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"p.parquet: damaged Parquet file"):
        address.value(file, 0, "plain")


def test_mutants_end_in_one_line(file: Path) -> None:
    def read() -> None:
        for column in ("plain", "hub"):
            for row in (0, 50, 99):
                with contextlib.suppress(IndexError):
                    address.value(file, row, column)

    whole = file.read_bytes()
    found = refusals(file, [*mutants(whole, 100), *mutants(whole, 200, first=len(whole) * 2 // 3)], read)
    assert len(found) > 100
    assert all(isinstance(error, InputError) for error in found)


def test_row_groups_kept_take_no_more_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files, each with groups that would fit alone."""
    address._cache.clear()
    for name in "abc":
        pq.write_table(
            pa.table({"image": [bytes([row]) * 2**20 for row in range(6)]}),
            tmp_path / f"{name}.parquet",
            row_group_size=2,
        )
    with memory.limit(5, "some.memory"):
        for row in range(6):
            for name in "abc":
                assert address.value(tmp_path / f"{name}.parquet", row, "image") == bytes([row]) * 2**20
                assert sum(group.nbytes for group in address._cache.values()) < 5 * 2**20


def test_a_picture_that_every_row_names(tmp_path: Path) -> None:
    path = bombs.repeated_picture(tmp_path / "a.parquet", length=2**20, rows=400)
    with memory.limit(64, "some.memory"):
        ended, peak = bombs.in_child(lambda: address.value(path, 7, "image"))
    assert re.fullmatch(
        rf"InputError: {path}: image: takes \d+ MiB in memory, more than the 64 MiB of some.memory; .*", ended
    )
    assert peak < 320  # all of it would be 400, and its copy
    assert len(address.value(path, 7, "image")) > 2**20
