"""Addresses of pictures, and the bytes behind them."""

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import bombs
from tests.prepare.formats.test_webdataset import shard
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.pictures import address, images, read
from vse_pipe.pictures.address import Box, Cell, TarMember, cut, parse, path_of

NUMBERS = st.integers(0, 10**17)
NAMES = st.text(st.characters(exclude_characters="\0/"), min_size=1)


@settings(max_examples=15)
@given(first=NUMBERS, second=NUMBERS, name=NAMES)
def test_members_and_cells(first: int, second: int, name: str) -> None:
    for one in (TarMember("a/train-0.tar", first, second, name), Cell("a/b.parquet", first, name)):
        assert parse(str(one)) == one
        assert path_of(str(one)) == str(one).partition("::")[0]


@settings(max_examples=15)
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
    """(row group, leaf) of each reading of more than a first row."""
    noted, real = [], pq.ParquetFile.iter_batches

    def note(self, rows, row_groups, columns):
        noted.extend((*row_groups, *columns) for _ in range(rows > 1))
        return real(self, rows, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", note)
    return noted


@pytest.mark.parametrize("column", ["plain", "hub"])
def test_rows_in_order_read_each_row_group_once(file: Path, column: str, groups_read: list) -> None:
    assert [address.value(file, row, column) for row in range(100)] == ROWS
    leaf = "hub.bytes" if column == "hub" else "plain"
    assert groups_read == [(group, leaf) for group in range(12)]


def test_a_file_that_changed_is_opened_again(file: Path) -> None:
    assert address.value(file, 0, "plain") == ROWS[0]
    pq.write_table(pa.table({"plain": [b"something else"]}), file)
    assert address.value(file, 0, "plain") == b"something else"


def test_a_picture_that_every_row_names(tmp_path: Path) -> None:
    path = bombs.repeated_picture(tmp_path / "a.parquet", length=2**20, rows=400)
    with memory.limit(64, "some.memory"):
        ended, peak = bombs.in_child(lambda: address.value(path, 7, "image"))
    refused = rf"InputError: {path}: image: takes \d+ MiB in memory, more than the 64 MiB of some.memory; .*"
    assert re.fullmatch(refused, ended)
    assert peak < 320  # all of it would be 400, and its copy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file, a shard with it at the address of its one member, and a Parquet file with bytes, structs and a null."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"bytes of a")
    shard(folder / "s.tar", [("a.jpg", b"bytes of a")])
    structs = [{"bytes": b"in a struct", "path": "../../etc/passwd"}, {"bytes": None, "path": "a.jpg"}]
    pq.write_table(pa.table({"image": [b"bytes of a", None], "hub": structs}), folder / "p.parquet")
    (tmp_path / "secret.tar").write_bytes(bytes(4096))
    (folder / "link.tar").symlink_to("../secret.tar")
    return folder


ADDRESSES = [
    ("a.jpg", b"bytes of a"),
    (str(TarMember("s.tar", 512, 10, "a.jpg")), b"bytes of a"),
    (str(TarMember("s.tar", 513, 3, "any name")), b"yte"),
    (str(Cell("p.parquet", 0, "image")), b"bytes of a"),
    (str(Cell("p.parquet", 0, "hub")), b"in a struct"),
    (str(TarMember("link.tar", 0, 3, "any name")), b"\0\0\0"),
]


@pytest.mark.parametrize(("file", "expected"), ADDRESSES)
def test_bytes(root: Path, file: str, expected: bytes) -> None:
    assert read.content(root, file, "row 0") == expected
    assert images.page_bytes(root / file) == expected


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("gone.jpg", "does not exist"),
        (".", "is no regular file"),
        ("pipe.jpg", "is no regular file"),
        ("huge.jpg", f"has {2**30} bytes, more than the {read.LARGEST} that are read"),
        (str(TarMember("s.tar", 0, 2**30, "a.jpg")), f"has {2**30} bytes, more than"),
        (str(Cell("p.parquet", 1, "image")), "holds no bytes in column 'image'"),
    ],
)
def test_what_cannot_be_read_has_a_reason(root: Path, file: str, reason: str) -> None:
    os.mkfifo(root / "pipe.jpg")
    with (root / "huge.jpg").open("wb") as sparse:
        sparse.truncate(2**30)
    with pytest.raises(UnreadableImage) as caught:
        read.content(root, file, "row 0")
    assert caught.value.reason.startswith(reason)
    assert images.page_bytes(root / file) is None


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        ("../secret.tar", InputError, "row 0: file '../secret.tar' lies outside its root"),
        (str(TarMember("../secret.tar", 0, 9, "x")), InputError, "lies outside its root"),
        (str(TarMember("gone.tar", 0, 9, "x")), InputError, "row 0: shard .*gone.tar cannot be read"),
        (
            str(TarMember("s.tar", 10**6, 9, "x")),
            IntegrityError,
            "s.tar ends before x does; .*`vse-pipe prepare` again",
        ),
        (str(Cell("p.parquet", 2, "image")), IntegrityError, "p.parquet has 2 rows, no row 2; .*again"),
        (str(Cell("s.tar.parquet", 0, "image")), InputError, "s.tar.parquet: damaged Parquet file"),
    ],
)
def test_refused(root: Path, file: str, error: type, message: str) -> None:
    (root / "s.tar.parquet").write_bytes((root / "s.tar").read_bytes())
    with pytest.raises(error, match=message) as caught:
        read.content(root, file, "row 0")
    assert not isinstance(caught.value, UnreadableImage)


def test_a_name_with_parents_in_a_member_opens_nothing_else(root: Path) -> None:
    assert read.content(root, str(TarMember("s.tar", 512, 10, "../../secret.tar")), "row 0") == b"bytes of a"
