"""phrases.parquet and regions.parquet: what they refuse."""

import pyarrow as pa
import pytest

from vse_pipe.artifacts import regions
from vse_pipe.core.errors import InputError

PHRASE = {
    "phrase_id": 1, "caption_id": 1, "image_id": 1, "chain": 7, "start": 0, "text": "a dog", "type": "animals",
    "x1": 0.0, "y1": 2.0, "x2": 4.0, "y2": 2.0, "split": "test",
    "region_id": None,
}  # fmt: skip
REGION = {
    "image_id": 1, "source_id": 9, "x1": 0.0, "y1": 2.0, "x2": 4.0, "y2": 2.0, "proposed": False, "score": 0.0,
    "split": "test",
}  # fmt: skip


def test_a_box_of_one_row_of_pixels_is_one(tmp_path):
    regions.write_phrases(tmp_path, pa.Table.from_pylist([PHRASE]))
    regions.write(tmp_path, pa.Table.from_pylist([REGION]), "data/prepare/whole")
    assert regions.read_phrases(tmp_path).to_pylist() == [PHRASE]
    found = regions.read(tmp_path)
    assert (found.to_pylist(), str(regions.source(found))) == ([REGION], "data/prepare/whole")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x2": -1.0}, "phrase_id 1: no box: 0.0, 2.0, -1.0, 2.0"),
        ({"y1": 3.0}, "phrase_id 1: no box: 0.0, 3.0, 4.0, 2.0"),
        ({"x1": float("nan")}, "phrase_id 1: no box: nan"),
        ({"x2": float("inf")}, "phrase_id 1: no box: 0.0, 2.0, inf"),
        ({"text": ""}, "phrase_id 1: the phrase is empty"),
    ],
)
def test_what_is_no_phrase_is_refused(tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        regions.write_phrases(tmp_path, pa.Table.from_pylist([PHRASE | change]))
    with pytest.raises(InputError, match="phrase_id"):
        regions.write_phrases(tmp_path, pa.Table.from_pylist([PHRASE, PHRASE]))


def test_what_is_no_region_is_refused(tmp_path):
    with pytest.raises(InputError, match="image_id 1: no box"):
        regions.write(tmp_path, pa.Table.from_pylist([REGION | {"y2": 1.0}]), "data/prepare/whole")
