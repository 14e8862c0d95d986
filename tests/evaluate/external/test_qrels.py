import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.evaluate.external import readers

PAIRS = {(10, 1), (10, 2), (11, 2)}


def pairs(path) -> tuple[set, set]:
    """(caption, image) of both directions."""
    found = readers.read_qrels(str(path)).pairs
    captions, images = found["text_to_image"]
    back = found["image_to_text"][::-1]
    return set(zip(captions.tolist(), images.tolist(), strict=True)), set(
        zip(*map(np.ndarray.tolist, back), strict=True)
    )


@pytest.mark.parametrize(
    "text",
    [
        "caption_id\timage_id\n10\t1\n10\t2\n11\t2\n",
        "caption_id image_id relevance\n10 1 1\n11 1 0\n10 2 0.5\n11 2 3",
        "10 0 1 1\n10 0 2 2\n11 0 2 1\n11 0 1 0\n12 0 1 -1\n",
        "\ufeff10 Q0 1 1\r\n10 Q0 2 1\r\n11 Q0 2 1\r\n",
    ],
)
def test_text_with_a_header_or_trec_lines(tmp_path, text):
    (tmp_path / "q.txt").write_text(text, encoding="utf-8", newline="")
    assert pairs(tmp_path / "q.txt") == (PAIRS, PAIRS)


@pytest.mark.parametrize("grades", [None, [1, 1, 1, 0], [0.5, 1.0, 2.0, 0.0]])
def test_parquet(tmp_path, grades):
    columns = {"image_id": [1, 2, 2, 1], "caption_id": [10, 10, 11, 11]}
    rows = 3 if grades is None else 4
    columns = {name: values[:rows] for name, values in columns.items()} | ({"relevance": grades} if grades else {})
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    assert pairs(tmp_path / "q.parquet") == (PAIRS, PAIRS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no judgements; expected lines of caption_id image_id"),
        ("caption_id image_id\n", "no judgements"),
        ("caption_id image\n1 2\n", "line 1: columns caption_id image; expected caption_id image_id"),
        ("caption_id image_id\n1 2\n1\n", "line 3: 1 fields; expected caption_id image_id"),
        ("1 0 2 1\n1 2\n", "line 2: 2 fields; expected caption_id 0 image_id relevance, or a header"),
        ("caption_id image_id\n1 2\nx 3\n", "line 3: caption_id 'x' is not an integer"),
        ("1 0 2 yes\n", "line 1: relevance 'yes' is not a number"),
        ("1 0 2 nan\n", "line 1: relevance 'nan' is not a number"),
        ("1 0 2 0\n", "no pair with a relevance above 0 among 1 lines"),
    ],
)
def test_unfit_text_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "q.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        readers.read_qrels(str(tmp_path / "q.txt"))


def test_unfit_files(tmp_path):
    with pytest.raises(MissingResource, match=r"q\.tsv does not exist"):
        readers.read_qrels(str(tmp_path / "q.tsv"))
    (tmp_path / "q.tsv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 text"):
        readers.read_qrels(str(tmp_path / "q.tsv"))
    pq.write_table(pa.table({"caption_id": [1], "image_id": [2], "relevance": ["1"]}), tmp_path / "q.parquet")
    with pytest.raises(InputError, match="column 'relevance' is string, expected numbers"):
        readers.read_qrels(str(tmp_path / "q.parquet"))
