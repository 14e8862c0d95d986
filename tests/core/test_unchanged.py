"""Tables that are written anew while a stage reads them."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from vse_pipe.core import mapped, tables
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.locks import claim

SCHEMA = pa.schema([tables.field("id", pa.int64(), "a number")])
FOUND = r"ids\.parquet: written anew while it was read; run the same command again"


def write(path: Path, *ids: int) -> None:
    tables.write(path, pa.table({"id": list(ids)}), SCHEMA, {})


@pytest.mark.parametrize("again", [tables.read, lambda *where: list(tables.scan(*where))], ids=["read", "scan"])
@pytest.mark.parametrize("ids", [(1, 2), (1, 2, 3)], ids=["the same", "another"])
def test_what_is_written_anew_between_two_readings_is_refused(tmp_path: Path, ids: tuple, again) -> None:
    path = tmp_path / "ids.parquet"
    write(path, 1, 2)
    with claim(tmp_path / "out"):
        for _ in range(2):
            assert len(tables.read(path, SCHEMA)) == 2
        write(path, *ids)
        with pytest.raises(IntegrityError, match=FOUND):
            again(path, SCHEMA)
    with claim(tmp_path / "out"):  # the same command again
        assert len(tables.read(path, SCHEMA)) == len(ids)


def test_a_file_that_is_changed_in_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    write(path, 1, 2)
    with mapped.required(tmp_path / "out"):
        mapped.unchanged_path(path)
        os.utime(path, ns=(0, 0))
        with pytest.raises(IntegrityError, match=FOUND):
            mapped.unchanged_path(path)


def test_what_is_written_oneself_or_read_without_a_claim_may_change(tmp_path: Path) -> None:
    own = tmp_path / "out" / "ids.parquet"
    own.parent.mkdir()
    with claim(own.parent):
        for count in (1, 2):
            write(own, *range(count))
            assert len(tables.read(own, SCHEMA)) == count
    for count in (1, 2):
        write(tmp_path / "ids.parquet", *range(count))
        assert len(tables.read(tmp_path / "ids.parquet", SCHEMA)) == count
