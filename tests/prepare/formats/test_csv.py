"""The csv format: quoting, encodings, splits by column and by hash."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive.data import hashed_split
from tests.prepare._data import ODD_CAPTIONS, captions_by_file, pictures, read
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.formats.csv import _rows
from vse_pipe.prepare.formats.options import CsvOptions as Params


def _table(folder, text: str | bytes, names=("a.png", "b.png", "c.png")):
    pictures(folder, list(names))
    path = folder / "captions.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _written(rows: list[tuple], line_end: str = "\r\n") -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=line_end).writerows(rows)
    return stream.getvalue()


def test_rows_of_one_image_need_not_be_adjacent(tmp_path):
    text = "image,caption,split\nb.png,one,val\na.png,two,train\nb.png,three,dev\nc.png,four,test\n"
    source = read("csv", _table(tmp_path, text), tmp_path / "out")
    assert source.images.select(["image_id", "file", "split"]).to_pylist() == [
        {"image_id": 0, "file": "b.png", "split": "val"},
        {"image_id": 1, "file": "a.png", "split": "train"},
        {"image_id": 2, "file": "c.png", "split": "test"},
    ]
    assert source.captions.to_pylist() == [
        {"caption_id": 0, "image_id": 0, "text": "one", "split": "val"},
        {"caption_id": 1, "image_id": 1, "text": "two", "split": "train"},
        {"caption_id": 2, "image_id": 0, "text": "three", "split": "val"},
        {"caption_id": 3, "image_id": 2, "text": "four", "split": "test"},
    ]
    assert source.root == str(tmp_path)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_odd_captions_come_back_unchanged(tmp_path, line_end, mark):
    captions = [*ODD_CAPTIONS, "two\nlines", "windows\r\nlines"]
    text = mark + _written([("image", "caption"), *[("a.png", caption) for caption in captions]], line_end)
    assert captions_by_file(read("csv", _table(tmp_path, text), tmp_path / "out")) == {"a.png": captions}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))),
        min_size=1,
    )
)
def test_any_quoted_text_comes_back(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("cells") / "captions.csv"
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("image", "caption"), *cells])
    path.write_bytes(stream.getvalue().encode())
    assert _rows(path)[1] == [{"image": image, "caption": caption} for image, caption in cells]


@pytest.mark.parametrize("text", ["{0}{1}\n\n", "{0}{1}\r\n \r\n\r\n", "{0}\n\n{1}", "\ufeff{0}{1}\n\n\n"])
def test_blank_lines_are_no_rows(tmp_path, text):
    path = _table(tmp_path, text.format("image,caption\na.png,x\n", "b.png,y\na.png,z\n"), ["a.png", "b.png"])
    source = read("csv", path, tmp_path / "out")
    assert source.captions["text"].to_pylist() == ["x", "y", "z"]
    assert source.captions["image_id"].to_pylist() == [0, 1, 0]


def test_one_picture_has_one_name(tmp_path):
    """Its split is still that of the name as it stands in the table."""
    names = ["./a.png", "sub//b.png", "a.png", "./sub/./b.png", "././a.png"]
    for name in ("a.png", "sub/b.png"):
        pictures(tmp_path / Path(name).parent, [Path(name).name])
    path = _table(tmp_path, "image,caption\n" + "".join(f"{name},{name}\n" for name in names), ())
    source = read("csv", path, tmp_path / "out", seed=3, val=0.4, test=0.4)
    assert source.images["file"].to_pylist() == ["a.png", "sub/b.png"]
    assert source.images["split"].to_pylist() == [hashed_split(3, name, 0.4, 0.4) for name in names[:2]]
    assert source.captions["image_id"].to_pylist() == [0, 1, 0, 1, 0]
    assert source.captions["split"].to_pylist() == [source.images["split"].to_pylist()[i] for i in (0, 1, 0, 1, 0)]


def test_columns_in_any_order(tmp_path):
    source = read("csv", _table(tmp_path, "split,caption,image\ntest,hello,a.png\n"), tmp_path / "out")
    assert source.images["split"].to_pylist() == ["test"]
    assert captions_by_file(source) == {"a.png": ["hello"]}


def test_images_option_is_relative_to_the_table(tmp_path):
    pictures(tmp_path / "pics", ["a.png"])
    source = read("csv", _table(tmp_path, "image,caption\na.png,x\n", names=()), tmp_path / "out", images="pics")
    assert source.root == str(tmp_path / "pics")


def test_split_without_a_column_is_a_hash_of_seed_and_name(tmp_path):
    names = [f"{number}.png" for number in range(200)]
    path = _table(tmp_path, "image,caption\n" + "".join(f"{name},x\n" for name in names), names)
    source = read("csv", path, tmp_path / "out", seed=3, val=0.2, test=0.3)
    found = source.images["split"].to_pylist()
    assert found == [hashed_split(3, name, 0.2, 0.3) for name in names]
    assert 20 < found.count("val") < 60
    assert 35 < found.count("test") < 85
    other = read("csv", path, tmp_path / "out", seed=4, val=0.2, test=0.3).images["split"].to_pylist()
    assert other != found


def test_an_image_keeps_its_hashed_split_when_others_are_added(tmp_path):
    names = [f"{number}.png" for number in range(40)]
    few = read(
        "csv",
        _table(tmp_path / "few", "image,caption\n" + "".join(f"{n},x\n" for n in names[:20]), names[:20]),
        tmp_path,
    )
    many = read(
        "csv", _table(tmp_path / "many", "image,caption\n" + "".join(f"{n},x\n" for n in names[::-1]), names), tmp_path
    )
    known = dict(zip(many.images["file"].to_pylist(), many.images["split"].to_pylist(), strict=True))
    assert few.images["split"].to_pylist() == [known[name] for name in names[:20]]
    assert len(set(known.values())) > 1


def test_shares_must_leave_images_to_train():
    with pytest.raises(ValidationError, match="must leave a share to train"):
        Params(val=0.5, test=0.5)


BAD = [
    ("empty caption", "image,caption\na.png,x\na.png,\n", "captions.csv row 3: the caption is empty"),
    ("blank caption", 'image,caption\na.png,"\u3000\n"\n', "captions.csv row 2: the caption is empty"),
    ("two splits", "image,caption,split\na.png,x,train\na.png,y,test\n", "row 3: image 'a.png' is in split test here, but in train in row 2"),
    ("unknown split", "image,caption,split\na.png,x,vla\n", "row 2: unknown split 'vla'; did you mean 'val'?"),
    ("empty split", "image,caption,split\na.png,x,\n", "row 2: unknown split ''; known: train, restval, val, dev, test"),
    ("few cells", "image,caption\na.png\n", "row 2: expected 2 cells (image,caption), found 1"),
    ("many cells", "image,caption\na.png,x,y\n", "row 2: expected 2 cells (image,caption), found 3"),
    ("a row of commas", "image,caption\na.png,x\n,\n", "row 3: the caption is empty"),
    ("rows after blank ones", "image,caption\n\na.png,x\n \n\na.png,\n", "row 6: the caption is empty"),
    ("up and down", "image,caption\na.png,x\nx/../a.png,x\n", "row 3: file 'x/../a.png': a name with '..' can be"),
    ("no header", "a.png,x\n", "row 1: expected the columns image,caption"),
    ("typo in header", "image,caption,spilt\na.png,x,val\n", "found 'image,caption,spilt'"),
    ("column twice", "image,caption,caption\na.png,x,y\n", "found 'image,caption,caption'"),
    ("empty file", "", "row 1: expected the columns image,caption"),
    ("header only", "image,caption\n", "captions.csv: no rows below the header"),
    ("open quote", 'image,caption\na.png,"x\na.png,y\n', "line 3: unexpected end of data"),
    ("stray quote", 'image,caption\na.png,"x"y\n', "line 2: ',' expected after '\"'"),
    ("huge cell", "image,caption\na.png," + "x" * 200_000 + "\n", "line 2: field larger than field limit"),
    ("not UTF-8", b"image,caption\na.png,ok\na.png,caf\xe9\n", "captions.csv line 3: byte 0xe9 is not UTF-8"),
    ("not UTF-8 after a mark", b"\xef\xbb\xbfimage,caption\na.png,caf\xe9\n", "captions.csv line 2: byte 0xe9 is not UTF-8"),
    ("absolute", "image,caption\n/etc/passwd,x\n", "row 2: file '/etc/passwd' is absolute"),
    ("parent", "image,caption\na.png,x\n../a.png,x\n", "row 3: file '../a.png' lies outside its root"),
    ("an address", "image,caption\nx.tar::1:2::y.png,x\n", "row 2: file 'x.tar::1:2::y.png' reads as the place of a picture in 'x.tar'; rename"),
    ("a cell", "image,caption\nx.parquet::1::y.png,x\n", "row 2: file 'x.parquet::1::y.png' reads as the place of a picture in 'x.parquet'"),
    ("no name", "image,caption\n,x\n", "row 2: the image's file name is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), [(case[1], case[2:]) for case in BAD], ids=[case[0] for case in BAD])
def test_bad_table(tmp_path, text, messages):
    with pytest.raises(InputError) as caught:
        read("csv", _table(tmp_path, text), tmp_path / "out")
    for message in messages:
        assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_images_are_left_to_the_stage(tmp_path):
    source = read("csv", _table(tmp_path, "image,caption\na.png,x\ngone.png,y\ngone.png,z\n"), tmp_path / "out")
    assert source.broken == ["captions.csv row 3: gone.png does not exist"]
    assert source.images["width"].to_pylist() == [8, 0]


def test_source_must_be_a_file(tmp_path):
    with pytest.raises(MissingResource, match=r"none.csv does not exist"):
        read("csv", tmp_path / "none.csv", tmp_path / "out")
    with pytest.raises(MissingResource, match="no such file"):
        read("csv", tmp_path, tmp_path / "out")
