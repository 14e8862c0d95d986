"""Pictures are found wherever the data set has them; conditions hold where Python says so, row by row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.artifacts import images
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.pictures import images as pictures
from vse_pipe.tools.search.catalogue import Catalogue, rows_where

FILES = ["a.png", "b/it's.jpg", "c.JPG", "d and e.png", 'f"g.png']
COLUMNS = {"image_id": [3, 5, 7, 9, 11], "file": FILES, "width": [100, 500, 640, 500, 0], "split": list("xyyxz")}
TABLE = pa.table({**COLUMNS, "width": pa.array(COLUMNS["width"], pa.int32())})
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def catalogue(root, file: str) -> Catalogue:
    row = {"image_id": [1], "file": [file], "split": ["test"], "width": [2], "height": [2], "sha256": ["x"]}
    images.write(root, pa.table(row, images.SCHEMA), str(root))
    return Catalogue("tiny", tables.read(root / images.NAME, images.SCHEMA), pa.table({}))


def test_a_picture_inside_a_shard(tmp_path):
    (tmp_path / "t.tar").write_bytes(b"before, picture, after")
    path = catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1)
    assert pictures.page_bytes(path) == b"picture"
    (tmp_path / "t.tar").unlink()
    assert catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1) is None


def test_a_shard_outside_of_the_root(tmp_path):
    with pytest.raises(InputError, match="lies outside its root"):
        catalogue(tmp_path, "../t.tar::8:7::a.jpg").path(1)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["a.jpg", "b.jpg"], ["a.jpg", "b.jpg"]),
        (["a.jpg", "a.jpg", "b.jpg", "b.jpg"], ["a.jpg", "b.jpg"]),
        (["1", "2", "3", "4"], None),  # numbers of captions
        (["a.jpg", "b.jpg", "c.jpg"], None),
        ([], None),
    ],
)
def test_precomputed_features_are_shown_by_the_names_beside_them(tmp_path, lines, shown):
    (tmp_path / "test_ids.txt").write_text("".join(f"{line}\n" for line in lines))
    files = ["test_ims.npy#0", "train_ims.npy#0", "test_ims.npy#5"]
    blank = [0] * 3
    columns = [[1, 2, 3], files, ["test", "train", "test"], blank, blank, ["x"] * 3]
    images.write(tmp_path, pa.table(dict(zip(images.SCHEMA.names, columns, strict=True)), images.SCHEMA), str(tmp_path))
    found = Catalogue("tiny", tables.read(tmp_path / images.NAME, images.SCHEMA), pa.table({}))
    expected = shown or [files[0], files[2]]
    assert [found.file(number) for number in (1, 2, 3)] == [expected[0], files[1], expected[1]]
    assert found.path(1) is None


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("split = 'x' and width > 50", lambda row: row["split"] == "x" and row["width"] > 50),
        ("split == 'x' or width >= 640", lambda row: row["split"] == "x" or row["width"] >= 640),
        ("NOT (split = 'y' AND width <> 500)", lambda row: not (row["split"] == "y" and row["width"] != 500)),
        ("100 < width <= 500", lambda row: 100 < row["width"] <= 500),
        ("500 >= width", lambda row: row["width"] <= 500),
        ("width > 99.5 and width != -1", lambda row: row["width"] > 99.5),
        ("split in ('x', 'z')", lambda row: row["split"] in ("x", "z")),
        ("split IN ('x')", lambda row: row["split"] == "x"),
        ("image_id not in [3, 99]", lambda row: row["image_id"] not in (3, 99)),
        ("width in ()", lambda row: False),
        ("'.png' in file", lambda row: ".png" in row["file"]),
        ("' and ' not in file", lambda row: " and " not in row["file"]),
        ('file = "b/it\'s.jpg"', lambda row: row["file"] == "b/it's.jpg"),
        ("file = 'f\"g.png'", lambda row: row["file"] == 'f"g.png'),
        ("file = 'a = b <> c'", lambda row: False),
        ("width < 99999999999999999999999", lambda row: True),
        ("width < " + "9" * 900, lambda row: True),
    ],
)
def test_the_same_rows(condition, same):
    np.testing.assert_array_equal(rows_where(condition, TABLE), [same(row) for row in ROWS])


COMPARED = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
LEAF = st.tuples(st.sampled_from(["width", "image_id"]), COMPARED, st.integers(-2, 700)).map(
    lambda one: f"{one[0]} {one[1]} {one[2]}"
) | st.tuples(st.sampled_from(["split", "file"]), COMPARED, st.sampled_from([*FILES[:1], "x", "y"])).map(
    lambda one: f"{one[0]} {one[1]} '{one[2]}'"
)


@given(
    st.recursive(
        LEAF,
        lambda inner: (
            inner.map(lambda one: f"not ({one})")
            | st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda one: f"({one[0]}) {one[1]} {one[2]}")
        ),
        max_leaves=6,
    )
)
def test_what_python_says_row_by_row(condition):
    wanted = [bool(eval(condition, {}, row)) for row in ROWS]  # of what is drawn here
    np.testing.assert_array_equal(rows_where(condition, TABLE), wanted)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("widht > 5", "images have no column 'widht'; did you mean 'width'? known: image_id, file, width, split"),
        ("width > 'a'", "'a' is compared with a column of int32"),
        ("split = 5", "5 is compared with a column of string"),
        ("split = test", "put text in quotes: 'test'"),
        ("'5' in width", "'5' is compared with a column of int32"),
        ("5 in width", "column 'width' holds numbers"),
        ("file = 'it''s.jpg'", "two texts stand side by side"),
        ("split in ('a' 'b')", "two texts stand side by side"),
        ("file = 'a' \t\"b\"", "two texts stand side by side"),
        *[
            (text, "cannot read")
            for text in (
                "",
                "width",
                "width >",
                "width > 5 or",
                "width + 1 > 5",
                "__import__('os').system('true') = 0",
                "width.real > 5",
                "f'{width}' = 'a'",
                "b'a' = file",
                "split is 'x'",
                "width > True",
                "(lambda: 1)() > 0",
                "width > 5; split = 'x'",
                "(" * 400,
                "not " * 240 + "width",
                "5 = 5",
                "1and 2",
                "'\\d' = ",
                "a\0b = 1",
            )
        ],
        ("width > 5 or " * 200 + "width > 5", "characters; 1,000 are the most"),
    ],
)
def test_what_cannot_be_read_is_one_line(condition, message):
    with pytest.raises(UsageError) as raised:
        rows_where(condition, TABLE)
    assert str(raised.value).startswith("--where: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_ids_too_large_for_a_comparison_with_a_fraction_are_one_line():
    table = pa.table({"image_id": [2**60 + 1]})
    with pytest.raises(UsageError, match=r"^--where: a value cannot be compared with its column: Integer value .*$"):
        rows_where("image_id > 1.5", table)
