"""What in a footer ends pyarrow: ``tests.faults.fuzz`` found it, and a process that has ended fails no test."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.core.pages import require_sound

ROWS = [[1, 2], None, []]


def _footer(path: Path, column: pa.Field, rows: list = ROWS) -> tuple[bytes, pq.ParquetSchema]:
    pq.write_table(pa.table([pa.array(rows, column.type)], pa.schema([column])), path)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    return content[-8 - length : -8], pq.read_metadata(path).schema


LISTS = pa.field("a", pa.list_(pa.int32()))
FLAT = pa.field("a", pa.int32(), nullable=False)


def test_what_pyarrow_writes_is_sound(tmp_path):
    require_sound(*_footer(tmp_path / "a", LISTS))
    require_sound(*_footer(tmp_path / "a", FLAT, [1, 2]))
    require_sound(*_footer(tmp_path / "a", pa.field("a", pa.string()), ["one", None]))


@pytest.mark.parametrize("field", [pa.field("a", pa.int32()), FLAT], ids=["repetitions", "definitions too"])
def test_counts_of_levels_that_the_schema_does_not_have(tmp_path, field):
    footer, _ = _footer(tmp_path / "a", LISTS)
    _, schema = _footer(tmp_path / "b", field, [1, 2])
    with pytest.raises(ValueError, match="contradicts itself about the sizes of a column"):
        require_sound(footer, schema)


def test_sizes_of_texts_in_a_column_of_numbers(tmp_path):
    footer, _ = _footer(tmp_path / "a", pa.field("a", pa.string()), ["one", None])
    _, schema = _footer(tmp_path / "b", pa.field("a", pa.int32()), [1, None])
    with pytest.raises(ValueError, match="contradicts itself"):
        require_sound(footer, schema)


@pytest.mark.parametrize("keep", [0, 1, 30, -1])
def test_a_footer_that_ends_early(tmp_path, keep):
    footer, schema = _footer(tmp_path / "a", LISTS)
    with pytest.raises(ValueError, match="not whole"):
        require_sound(footer[:keep], schema)
