"""Parquet files with image bytes are read in place; what does not fit is named with its row."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from tests.prepare._data import captions_by_file, picture, read
from vse_pipe.core.errors import InputError
from vse_pipe.pictures import read as sources
from vse_pipe.prepare.formats import parquet
from vse_pipe.prepare.source import Source
from vse_pipe.project.sources import content


def hub(first: int, count: int) -> list[dict]:
    """Images as the hub's files have them."""
    return [{"bytes": picture(first + k), "path": f"{k}.png"} for k in range(count)]


def written(path: Path, **columns) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def whole(folder: Path, columns: dict) -> Source:
    """The data set of one file, all of it to train."""
    return read("parquet", written(folder / "x.parquet", **columns), folder, val=0.0, test=0.0)


def test_cells_are_read_in_place(tmp_path: Path) -> None:
    written(tmp_path / "train-0.parquet", image=hub(0, 3), caption=[["a", "b"], ["NA"], ["c"]])
    written(tmp_path / "val-0.parquet", image=hub(3, 1), caption=[["d"]])
    written(tmp_path / "test-0.parquet", image=hub(4, 1), caption=[["e", "f", "g"]])
    found = read("parquet", tmp_path, tmp_path / "out")
    files = found.images["file"].to_pylist()
    assert files[2] == "train-0.parquet::2::image"
    assert [sources.content(Path(found.root), file, "x") for file in files] == [picture(k) for k in range(5)]
    assert found.images["split"].to_pylist() == ["train"] * 3 + ["val", "test"]
    assert list(captions_by_file(found).values()) == [["a", "b"], ["NA"], ["c"], ["d"], ["e", "f", "g"]]
    assert found.broken == []


def test_a_column_of_splits_or_shares(tmp_path: Path) -> None:
    """Of plain bytes in columns of other names."""
    splits = pa.array(["train", "restval", "dev", "test"]).dictionary_encode()
    path = written(tmp_path / "all.parquet", jpg=[picture(k) for k in range(4)], txt=list("abcd"), part=splits)
    found = read("parquet", path, tmp_path, image="jpg", caption="txt", split="part")
    assert found.images["split"].to_pylist() == ["train", "train", "val", "test"]
    assert found.captions["text"].to_pylist() == list("abcd")
    written(path, image=hub(0, 1) * 60, caption=["x"] * 60, split=["training"] * 60)
    found = read("parquet", tmp_path, tmp_path, train="*.parquet", val=0.3, test=0.0)
    assert set(found.images["split"].to_pylist()) == {"train", "val"}
    with pytest.raises(InputError, match=r"all.parquet row 0: unknown split 'training'; known: train"):
        read("parquet", path, tmp_path, split="split")
    with pytest.raises(ValidationError, match="split names a column, so val must not be given"):
        parquet.Params(split="split", val=0.1)


KINDS = {
    "views": (pa.array(["a", "b"], pa.string_view()), [["a"], ["b"]]),
    "lists of views": (pa.array([["a"], ["b", "c"]], pa.list_(pa.string_view())), [["a"], ["b", "c"]]),
    "structs": ([[{"raw": "a", "sentid": 1}], [{"raw": "b", "sentid": 2}]], [["a"], ["b"]]),
    "written lists": (['["a", "b"]', "['c' 'd']"], [["a", "b"], ["c", "d"]]),
}


@pytest.mark.parametrize(("column", "texts"), KINDS.values(), ids=KINDS)
def test_captions_of_every_type(tmp_path: Path, column: pa.Array, texts: list[list[str]]) -> None:
    assert list(captions_by_file(whole(tmp_path, {"image": hub(0, 2), "caption": column})).values()) == texts


@pytest.mark.parametrize("kind", [pa.uint32(), pa.uint64(), pa.float64(), pa.string_view()], ids=str)
def test_ids_of_every_type_and_pictures_in_views(tmp_path: Path, kind: pa.DataType) -> None:
    ids = pa.array([70, 80]).cast(pa.string()).cast(kind)
    pictures = pa.array([picture(0), picture(1)], pa.binary_view())
    path = written(tmp_path / "x.parquet", image=pictures, caption=["a", "b"], n=ids)
    found = read("parquet", path, tmp_path, val=0.0, test=0.0, image_id="n")
    assert (found.images["image_id"].to_pylist(), found.broken) == ([70, 80], [])
    written(path, image=pictures, caption=["a", "b"], n=[0.5, 1.0])
    with pytest.raises(InputError, match=r"row 0: column 'n' holds 0\.5, no text"):
        read("parquet", path, tmp_path, val=0.0, test=0.0, image_id="n")


@pytest.mark.parametrize("in_structs", [False, True])
def test_pictures_that_lie_beside_the_file(tmp_path: Path, in_structs: bool) -> None:
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics/a.png").write_bytes(picture(0))
    names = [str(tmp_path / "pics/a.png"), "pics/a.png", None]
    column = [{"bytes": None, "path": name} for name in names] if in_structs else names
    found = whole(tmp_path, {"image": column, "caption": list("abc")})
    assert found.images["file"].to_pylist() == ["pics/a.png"] * 2
    assert (found.broken, len(found.left_out)) == ([], 1)
    groups = parquet.Params(val=0.0, test=0.0).reads(tmp_path / "x.parquet")
    assert set(content(groups[1])) == {"pics/a.png"}
    with pytest.raises(InputError, match=r"x\.parquet: picture /.* lies outside of"):
        read("parquet", written(tmp_path / "deep/x.parquet", image=names, caption=list("abc")), tmp_path)


BAD = [
    ("no image column", {"caption": ["a"]}, "has no column 'image'; it has caption"),
    ("struct without bytes", {"image": [{"path": "a"}], "caption": ["a"]}, "column 'image' is struct<path: string>"),
    ("numbers for captions", {"image": hub(0, 1), "caption": [1]}, "row 0: '1' is no caption"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_files(tmp_path: Path, columns: dict, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path}/x.parquet.*{re.escape(message)}"):
        whole(tmp_path, columns)


@pytest.mark.parametrize("keep", [slice(0, 0), slice(0, 300), slice(9, None), slice(0, -9)])
def test_damaged_files_are_named(tmp_path: Path, keep: slice) -> None:
    path = written(tmp_path / "x.parquet", image=hub(0, 3), caption=list("abc"))
    path.write_bytes(path.read_bytes()[keep])
    with pytest.raises(InputError, match=r"x.parquet: damaged Parquet file"):
        read("parquet", path, tmp_path, val=0.0, test=0.0)
