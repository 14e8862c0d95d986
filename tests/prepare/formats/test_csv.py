"""The csv format: quoting, encodings, splits by column and by hash."""

import csv
import io
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.naive.data import hashed_split
from tests.prepare._data import ODD_CAPTIONS, captions_by_file, one_line, pictures, read
from vse_pipe.prepare.formats.options import CsvOptions as Params
from vse_pipe.prepare.source import Source
from vse_pipe.project.sources import content


def _table(folder, text: str | bytes, names=("a.png", "b.png", "c.png")):
    pictures(folder, list(names))
    path = folder / "captions.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _made(folder: Path, text: str | bytes, names=("a.png", "b.png", "c.png"), **options) -> Source:
    return read("csv", _table(folder, text, names), folder / "out", **options)


def _listed(names: list[str]) -> str:
    return "image,caption\n" + "".join(f"{name},{name}\n" for name in names)


def test_rows_of_one_image_need_not_be_adjacent(tmp_path):
    source = _made(tmp_path, "image,caption,split\nb.png,one,val\na.png,two,train\nb.png,three,dev\nc.png,four,test\n")
    pictured = [tuple(row.values()) for row in source.images.select(["image_id", "file", "split"]).to_pylist()]
    assert pictured == [(0, "b.png", "val"), (1, "a.png", "train"), (2, "c.png", "test")]
    said = [tuple(row.values()) for row in source.captions.to_pylist()]
    assert said == [(0, 0, "one", "val"), (1, 1, "two", "train"), (2, 0, "three", "val"), (3, 2, "four", "test")]
    assert source.root == str(tmp_path)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_odd_captions_come_back_unchanged(tmp_path, line_end, mark):
    captions, stream = [*ODD_CAPTIONS, "two\nlines", "windows\r\nlines"], io.StringIO()
    rows = [("image", "caption"), *(("a.png", caption) for caption in captions)]
    csv.writer(stream, lineterminator=line_end).writerows(rows)
    assert captions_by_file(_made(tmp_path, mark + stream.getvalue())) == {"a.png": captions}


def test_one_picture_has_one_name(tmp_path):
    """Its split is still that of the name as it stands in the table."""
    names = ["./a.png", "sub//b.png", "a.png", "./sub/./b.png", "././a.png"]
    pictures(tmp_path, ["sub/b.png"])
    source = _made(tmp_path, _listed(names), seed=3, val=0.4, test=0.4)
    splits = [hashed_split(3, name, 0.4, 0.4) for name in names[:2]]
    assert source.images["file"].to_pylist() == ["a.png", "sub/b.png"]
    assert source.images["split"].to_pylist() == splits
    assert source.captions["image_id"].to_pylist() == [0, 1, 0, 1, 0]
    assert source.captions["split"].to_pylist() == [splits[i] for i in (0, 1, 0, 1, 0)]


def test_split_without_a_column_is_a_hash_of_seed_and_name(tmp_path):
    """Whichever others there are."""
    names = [f"{number}.png" for number in range(80)]
    found, other = (
        _made(tmp_path, _listed(names), names, seed=seed, val=0.2, test=0.3).images["split"].to_pylist()
        for seed in (3, 4)
    )
    assert found == [hashed_split(3, name, 0.2, 0.3) for name in names]
    assert 6 < found.count("val") < 28
    assert 12 < found.count("test") < 37
    assert other != found
    few = _made(tmp_path, _listed(names[40::-1]), (), seed=3, val=0.2, test=0.3)
    assert few.images["split"].to_pylist() == found[40::-1]
    with pytest.raises(ValidationError, match="must leave a share to train"):
        Params(val=0.5, test=0.5)


WRITTEN = {
    "semicolon": ("image;caption\na.png;x, y\n", {}),
    "tab": ("filepath\ttitle\na.png\tx, y\n", {"columns": {"image": "filepath", "caption": "title"}}),
    "bars": ("image_name| comment_number| comment\na.png| 0| x, y\n", {"columns": {"image": "image_name", "caption": "comment"}}),
    "capitals and spaces": ('Image, Caption\na.png,"x, y"\n', {}),
    "spaces": ('image,caption\na.png, "x, y"\n', {}),
    "other columns": (',image,caption,note\n0,a.png,"x, y",1\n', {}),
    "no header": ('a.png,"x, y"\n', {"columns": {"image": 0, "caption": 1}}),
    "tokens": ("a.png#0\tx, y\n", {"columns": {"image": 0, "caption": 1}}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "options"), WRITTEN.values(), ids=WRITTEN)
def test_tables_as_others_write_them(tmp_path, text, options):
    found = _made(tmp_path, text, **options)
    assert (captions_by_file(found), found.broken) == ({"a.png": ["x, y"]}, [])
    groups = Params(**options).reads(tmp_path / "captions.csv")
    assert [set(content(group)) for group in groups] == [{""}, {"a.png", "b.png", "c.png"}]


def test_pictures_of_a_folder_of_their_own_are_dependencies_whatever_their_names(tmp_path):
    pictures(tmp_path / "photos", ["a.png"])
    (tmp_path / "photos/a.png").rename(tmp_path / "photos/0017f")
    _, group = Params(images="photos").reads(tmp_path / "captions.csv")
    assert set(content(group)) == {"0017f"}


LISTS = {
    "json": r'["two \u00e9", "a \"b\", c"]',
    "python": """['two \u00e9', 'a "b", c']""",
    "tuple": """('two \u00e9', 'a "b", c')""",
    "numpy": """['two \u00e9'\n 'a "b", c']""",
    "pandas": """array(['two \u00e9', 'a "b", c'], dtype=object)""",
}


@pytest.mark.parametrize("cell", LISTS.values(), ids=LISTS)
def test_a_written_list_is_several_captions(tmp_path, cell):
    stream = io.StringIO()
    csv.writer(stream).writerows([("image", "caption"), ("a.png", cell), ("b.png", "one")])
    found = _made(tmp_path, stream.getvalue())
    assert captions_by_file(found) == {"a.png": ["two \u00e9", 'a "b", c'], "b.png": ["one"]}


def test_what_is_no_list_stays_one_caption(tmp_path):
    texts = ["[a sign]", "('stop')", '["open', "['a' and 'b']", "x|y|z", '"quoted"']
    stream = io.StringIO()
    csv.writer(stream).writerows([("image", "caption"), *(("a.png", text) for text in texts)])
    assert captions_by_file(_made(tmp_path, stream.getvalue())) == {"a.png": texts}


def test_several_captions_in_columns_or_behind_a_separator(tmp_path):
    found = _made(tmp_path, "image,caption_0,caption_1\na.png,x,y\n")
    assert captions_by_file(found) == {"a.png": ["x", "y"]}
    found = _made(tmp_path, "image,first,second\na.png,x,y\n", columns={"caption": ["second", "first"]})
    assert captions_by_file(found) == {"a.png": ["y", "x"]}
    assert captions_by_file(_made(tmp_path, "image,caption\na.png,x | y\n", separator="|")) == {"a.png": ["x", "y"]}
    with one_line("row 2: a caption_id for 2 captions"):
        _made(tmp_path, "image,caption,caption_id\na.png,x|y,7\n", separator="|")


BAD = [
    ("two splits", "image,caption,split\na.png,x,train\na.png,y,test\n", "row 3: image 'a.png' has split 'test' here, but 'train' in row 2"),
    ("unknown split", "image,caption,split\na.png,x,vla\n", "row 2: unknown split 'vla'"),
    ("many cells", "image,caption\na.png,x,y\n", "row 2: expected 2 cells, found 3"),
    ("up and down", "image,caption\na.png,x\nx/../a.png,x\n", "row 3: file 'x/../a.png' lies outside its root"),
    ("no header", "a.png,x\n", "row 1: expected the columns image,caption"),
    ("column twice", "image,caption,caption\na.png,x,y\n", "expected the column 'caption' once"),
    ("header only", "image,caption\n", "captions.csv: no rows below the header"),
    ("open quote", 'image,caption\na.png,"x\na.png,y\n', "line 3: unexpected end of data"),
    ("huge cell", "image,caption\na.png," + "x" * 200_000 + "\n", "line 2: field larger than field limit"),
    ("not UTF-8", b"image,caption\na.png,ok\na.png,caf\xe9\n", "captions.csv line 3: not UTF-8"),
    ("absolute", "image,caption\n/etc/passwd,x\n", "row 2: file '/etc/passwd' is absolute"),
    ("an address", "image,caption\nx.tar::1:2::y.png,x\n", "row 2: file 'x.tar::1:2::y.png' reads as a place in the picture or file 'x.tar'; rename"),
    ("no name", "image,caption\n,x\n", "row 2: names no picture"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_table(tmp_path, text, message):
    with one_line(message):
        _made(tmp_path, text)
