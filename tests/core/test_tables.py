"""Parquet files: the tables of artefacts, and files of users; what may be an id, against a loop over the texts."""

import contextlib
import re
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import bombs
from vse_pipe.artifacts import captions, images, pairs
from vse_pipe.core import memory
from vse_pipe.core import tables as _table
from vse_pipe.core import text as core_text
from vse_pipe.core.errors import InputError


def _images(**columns) -> pa.Table:
    base = {"image_id": [3, 1], "file": ["a.png", "b.png"], "split": ["train", "test"]}
    sizes = {"width": pa.array([8, 8], pa.int32()), "height": pa.array([8, 8], pa.int32()), "sha256": ["0", "1"]}
    return pa.table({**base, **sizes, **columns})


def _captions(**columns) -> pa.Table:
    base = {"caption_id": [0, 1], "image_id": [3, 1], "text": ["NA", "a\u2028b"], "split": ["train", "test"]}
    return pa.table({**base, **columns})


def _many(count: int, texts: list[str], split: str = "val") -> pa.Table:
    return _captions(caption_id=range(count), image_id=[1] * count, text=texts, split=[split] * count)


def _pairs(**columns) -> pa.Table:
    base = {"caption_id": [0, 1], "image_id": [3, 1], "true_image_id": [3, 1]}
    return pa.table({**base, "mismatched": [False, False], "split": ["train", "test"], **columns})


def test_round_trips_keep_text_and_root_and_a_truth_that_is_left_open(tmp_path):
    images.write(tmp_path, _images(), "some/root")
    captions.write(tmp_path, _captions())
    assert str(images.root(images.read(tmp_path))) == "some/root"
    assert captions.read(tmp_path)["text"].to_pylist() == ["NA", "a\u2028b"]
    pairs.write(tmp_path, _pairs(true_image_id=[None, 1], mismatched=[None, False]), {})
    table = pairs.read(tmp_path)
    assert table["true_image_id"].to_pylist() == [None, 1]
    assert table["mismatched"].to_pylist() == [None, False]


BAD = [
    (images, _images(image_id=[3, 3]), "image_id 3 occurs more than once"),
    (images, _images(split=["train", "dev"]), "split 'dev' is not one of train, val, test"),
    (images, _images().slice(0, 0), "no images"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "table", "message"), BAD, ids=[message[:30] for *_, message in BAD])
def test_a_refused_table_leaves_no_file(tmp_path, kind, table, message):
    with pytest.raises(InputError, match=message):
        kind.write(tmp_path, table, ".")
    assert list(tmp_path.iterdir()) == []


def test_damage_and_columns_that_are_missing_or_of_another_type_are_named(tmp_path):
    pq.write_table(_captions().drop_columns(["text"]), tmp_path / captions.NAME)
    with pytest.raises(InputError, match=r"captions\.parquet: column 'text' \(string\) is missing"):
        captions.read(tmp_path)
    pq.write_table(_captions(caption_id=["x", "y"]), tmp_path / captions.NAME)
    with pytest.raises(InputError, match="column 'caption_id' is string, expected int64"):
        captions.read(tmp_path)


def test_bytes_do_not_follow_from_how_rows_were_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(_table, "ROWS", 7)
    base = _many(20, [f"a {k}" for k in range(20)])
    for place, size in enumerate((20, 7, 3)):
        cut = pa.concat_tables([base.slice(start, size) for start in range(0, 20, size)])
        captions.write(tmp_path / str(place), cut)
    written = [(tmp_path / str(place) / captions.NAME).read_bytes() for place in range(3)]
    assert written[0] == written[1] == written[2]
    table = captions.read(tmp_path / "0")
    assert table.equals(base.cast(table.schema))
    assert pq.ParquetFile(tmp_path / "0" / captions.NAME).metadata.num_row_groups == 3
    monkeypatch.setattr(_table, "ROWS", 5)
    monkeypatch.setattr(captions, "_ROWS", 2)
    texts = [f"a {k}" for k in range(12)]
    captions.write(tmp_path, _many(12, texts))
    column = captions.CaptionColumn(tmp_path, "text")
    assert [list(column), list(column)] == [texts, texts]
    assert captions.read(tmp_path, columns=["split", "image_id"]).column_names == ["split", "image_id"]
    _table.write(tmp_path / "none", [], captions.SCHEMA, {})
    assert _table.read(tmp_path / "none", captions.SCHEMA).num_rows == 0


TEXTS = ["a" * 40, "b", "", None] * 300
TABLES = {
    "numbers": pa.table({"a": np.arange(1200), "b": pa.array([None, 1.5] * 600)}),
    "texts": pa.table({"t": TEXTS, "u": pa.array(TEXTS, pa.large_string())}),
    "lists": pa.table({"l": [["x", "y"], [], None, ["z"]] * 300, "f": [[1.0], None, [2.0, 3.0], []] * 300}),
    "fixed": pa.table({"v": pa.array([[1.0, 2.0], None] * 600, pa.list_(pa.float32(), 2))}),
    "structs": pa.table({"s": [{"bytes": b"x", "path": "y"}, None] * 600}),
    "no rows": pa.table({"a": pa.array([], pa.int64())}),
}
OPTIONS = [{}, {"data_page_version": "2.0", "row_group_size": 500}, {"use_dictionary": False}]


@pytest.mark.parametrize("mebibytes", [None, 1])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", TABLES)
def test_what_is_whole_is_read_as_pyarrow_reads_it(tmp_path: Path, name, options: dict, mebibytes) -> None:
    pq.write_table(TABLES[name], tmp_path / "a.parquet", data_page_size=100, **options)
    with _table.open_parquet(tmp_path / "a.parquet") as file:
        with memory.limit(mebibytes, "some.memory") if mebibytes else contextlib.nullcontext():
            found = file.read()
        some = list(file.batches(rows=7))
    assert found.to_pylist() == TABLES[name].to_pylist()
    assert found.schema.equals(TABLES[name].schema, check_metadata=False)
    assert sum(map(len, some)) == len(TABLES[name])
    assert all(len(batch) <= 7 for batch in some)


TOO_MUCH = r"InputError: {}: .*: takes \d+ MiB in memory, more than the 64 MiB of some.memory; .*"
DAMAGED = r"IntegrityError: {}: damaged Parquet file \(Couldn't deserialize thrift: .*"
# Files that take too much, the column to read of them, MiB that they may take, and what is said.
BOMBS = {
    "one text": (lambda path: bombs.repeated_caption(path, 2**17, 1000), "caption", 250, TOO_MUCH),
    "beginnings": (lambda path: bombs.shared_beginnings(path, 2**17, 1000), "caption", 250, TOO_MUCH),
    "long texts": (lambda path: bombs.long_captions(path, length=2_000_000, rows=40), "caption", 150, TOO_MUCH),
    "zeros": (lambda path: bombs.zeros(path, rows=400, dim=50_000), "embedding", 150, TOO_MUCH),
    "lists of fixed size that are null": (lambda path: _nulls(path), "embedding", 150, TOO_MUCH),
    "columns without end": (lambda path: _only_columns(path), "a", 30, DAMAGED),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_takes_too_much_is_refused_before_much_is_decoded(tmp_path: Path, name: str) -> None:
    make, column, most, said = BOMBS[name]
    path = make(tmp_path / "a.parquet")
    ended, peak = bombs.in_child(lambda: _read(path, 64, column), most=2**30)
    assert re.fullmatch(said.format(path), ended, re.DOTALL), ended
    assert peak < most


def test_what_is_read_adds_up_and_texts_in_lists_may_not_share_their_beginnings(tmp_path: Path) -> None:
    texts = pa.array([["a" * 2**18] * 500])
    kind = {"caption.list.element": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"caption": texts}), tmp_path / "a.parquet", use_dictionary=False, column_encoding=kind)
    with pytest.raises(InputError, match=r"a\.parquet: caption: takes 126 MiB in memory, more than the 64 MiB"):
        _read(tmp_path / "a.parquet", 64, "caption")
    pq.write_table(pa.table({"a": np.arange(100_000)}), tmp_path / "a.parquet")
    with memory.limit(2, "some.memory"):
        memory.reserve("one.txt", 2**20 + 2**19)
        with pytest.raises(InputError, match=r"1 MiB in memory beside the 2 MiB read before, more than the 2 MiB"):
            _opened_and_read(tmp_path / "a.parquet", "a")
    assert len(_opened_and_read(tmp_path / "a.parquet", "a")) == 100_000


def _read(path: Path, mebibytes: int, column: str | None) -> pa.Table:
    with memory.limit(mebibytes, "some.memory"):
        return _opened_and_read(path, column)


def _opened_and_read(path: Path, column: str | None) -> pa.Table:
    with _table.open_parquet(path) as file:
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


def _is_number(text: str) -> bool:
    """Python writes it so, and int64 holds it."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and text == str(int(text)) and -(2**63) <= int(text) < 2**63


_EDGES = [edge + by for edge in (0, 2**53, 10**17, 10**18, 2**63, 10**19) for by in (-2, -1, 0, 1)]
_EDGES += [-edge for edge in _EDGES]


@pytest.mark.parametrize("number", _EDGES)
def test_a_number_is_what_python_writes_for_a_whole_number_that_int64_holds(number):
    for text in (str(number), f"+{number}", f"0{number}", f" {number}", f"{number}.0", f"{number}\n"):
        assert core_text.are_numbers(pa.array([text])) is _is_number(text)
        assert core_text.are_numbers(pa.array(["1", text, "2"])) is _is_number(text)
