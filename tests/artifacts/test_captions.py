"""captions.parquet, read by blocks."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.artifacts import captions
from vse_pipe.core.errors import InputError


def _written(folder, texts: list[str]) -> None:
    """By another program, which looks at nothing."""
    number = range(len(texts))
    table = pa.table([number, number, texts, ["train"] * len(texts)], schema=captions.SCHEMA)
    pq.write_table(table, folder / captions.NAME, row_group_size=2)


@pytest.mark.parametrize("columns", [["text"], ["caption_id", "text"]])
def test_an_empty_caption_is_found_in_whichever_block_it_is(tmp_path, columns):
    _written(tmp_path, ["a", "b", "c", " "])
    with pytest.raises(InputError, match=r"captions\.parquet.*: the caption is empty"):
        list(captions.blocks(tmp_path, columns))
    _written(tmp_path, ["a", "b", "c", "d"])
    assert [text for block in captions.blocks(tmp_path, columns) for text in block["text"].to_pylist()] == [*"abcd"]
    assert list(captions.CaptionColumn(tmp_path, "text")) == [*"abcd"]
