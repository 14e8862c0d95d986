"""Small files that take gigabytes are refused before they are decoded; whole ones read as pyarrow reads them."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import bombs
from tests.mutants import mutants, refusals
from vse_pipe.core import memory, tables
from vse_pipe.core.errors import InputError

TEXTS = ["a" * 40, "b", "", None] * 300
TABLES = {
    "numbers": pa.table({"a": np.arange(1200), "b": pa.array([None, 1.5] * 600)}),
    "texts": pa.table({"t": TEXTS, "u": pa.array(TEXTS, pa.large_string())}),
    "lists": pa.table({"l": [["x", "y"], [], None, ["z"]] * 300, "f": [[1.0], None, [2.0, 3.0], []] * 300}),
    "fixed": pa.table({"v": pa.array([[1.0, 2.0], None] * 600, pa.list_(pa.float32(), 2))}),
    "structs": pa.table({"s": [{"bytes": b"x", "path": "y"}, None] * 600}),
    "no rows": pa.table({"a": pa.array([], pa.int64())}),
}


@pytest.mark.parametrize("mebibytes", [None, 1])
@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0", "row_group_size": 500}, {"use_dictionary": False}]
)
@pytest.mark.parametrize("name", TABLES)
def test_what_is_whole_is_read_as_pyarrow_reads_it(
    tmp_path: Path, name: str, options: dict, mebibytes: int | None
) -> None:
    pq.write_table(TABLES[name], tmp_path / "a.parquet", data_page_size=100, **options)
    with tables.open_parquet(tmp_path / "a.parquet") as file:
        if mebibytes is None:
            found = file.read()
        else:
            with memory.limit(mebibytes, "some.memory"):
                found = file.read()
        some = list(file.batches(rows=7))
    assert found.to_pylist() == TABLES[name].to_pylist()
    assert found.schema.equals(TABLES[name].schema, check_metadata=False)
    assert sum(map(len, some)) == len(TABLES[name])
    assert all(len(batch) <= 7 for batch in some)


@pytest.mark.parametrize("make", [bombs.repeated_caption, bombs.shared_beginnings])
def test_one_text_that_every_row_names_is_not_written_out(tmp_path: Path, make) -> None:
    path = make(tmp_path / "a.parquet", length=2**17, rows=1000)
    ended, peak = bombs.in_child(lambda: _read(path, 64, "caption"), most=2**30)
    assert re.fullmatch(
        rf"InputError: {path}: caption: takes \d+ MiB in memory, more than the 64 MiB of some.memory; .*", ended
    )
    assert peak < 250


def test_texts_in_lists_that_share_their_beginnings_are_refused(tmp_path: Path) -> None:
    texts = pa.array([["a" * 2**18] * 500])
    kind = {"caption.list.element": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"caption": texts}), tmp_path / "a.parquet", use_dictionary=False, column_encoding=kind)
    with pytest.raises(InputError, match=r"a\.parquet: caption: takes 126 MiB in memory, more than the 64 MiB"):
        _read(tmp_path / "a.parquet", 64, "caption")


@pytest.mark.parametrize(
    ("make", "column", "most"),
    [
        (lambda path: bombs.repeated_captions_in_lists(path, rows=2000), "caption", 30),
        (lambda path: bombs.long_captions(path, length=2_000_000, rows=40), "caption", 150),
        (lambda path: bombs.zeros(path, rows=400, dim=50_000), "embedding", 150),
        (lambda path: _nulls(path), "embedding", 150),
    ],
    ids=["a row of one text", "long texts", "zeros", "lists of fixed size that are null"],
)
def test_what_takes_too_much_is_refused_before_much_is_decoded(tmp_path: Path, make, column: str, most: int) -> None:
    path = make(tmp_path / "a.parquet")
    ended, peak = bombs.in_child(lambda: _read(path, 64, column))
    assert ended.startswith(f"InputError: {path}: "), ended
    assert "more than the 64 MiB of some.memory" in ended
    assert peak < most


def test_columns_without_end_are_refused_with_the_footer(tmp_path: Path) -> None:
    path = _only_columns(tmp_path / "a.parquet")
    ended, peak = bombs.in_child(lambda: _read(path, 64, "a"))
    assert ended.startswith(f"IntegrityError: {path}: damaged Parquet file (Couldn't deserialize thrift: "), ended
    assert peak < 30


def test_what_is_read_adds_up(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.arange(100_000)}), tmp_path / "a.parquet")
    with memory.limit(2, "some.memory"):
        memory.reserve("one.txt", 2**20 + 2**19)
        with pytest.raises(InputError, match=r"1 MiB in memory beside the 2 MiB read before, more than the 2 MiB"):
            _opened_and_read(tmp_path / "a.parquet", "a")
    assert len(_opened_and_read(tmp_path / "a.parquet", "a")) == 100_000


@pytest.mark.parametrize("name", TABLES)
def test_damaged_files_end_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLES[name], path, write_page_checksum=True, compression=["none", "zstd"][len(name) % 2])
    whole = path.read_bytes()
    contents = [*mutants(whole, 50), *mutants(whole, 100, first=len(whole) // 2)]
    assert len(refusals(path, contents, lambda: _read(path, 64, None))) > 75


def _read(path: Path, mebibytes: int, column: str | None) -> pa.Table:
    with memory.limit(mebibytes, "some.memory"):
        return _opened_and_read(path, column)


def _opened_and_read(path: Path, column: str | None) -> pa.Table:
    with tables.open_parquet(path) as file:
        return file.read(None if column is None else [column])


def _nulls(path: Path) -> Path:
    kind = pa.list_(pa.float32(), 2**16)
    pq.write_table(pa.table({"embedding": pa.array([None] * 500, kind)}), path)
    return path


def _only_columns(path: Path) -> Path:
    """A footer of 300,000 columns, each of three bytes: written by hand, as its like is by nobody else."""
    columns = b"\x19\xfc" + bytes([0xE0, 0xA7, 0x12]) + b"\x26\x00\x00" * 300_000
    schema = b"\x19\x2c" + b"\x48\x04root\x15\x02\x00" + b"\x15\x02\x25\x00\x18\x01a\x00"
    footer = b"\x15\x02" + schema + b"\x16\x00" + b"\x19\x1c" + columns + b"\x16\x00\x16\x00\x00" + b"\x00"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path
