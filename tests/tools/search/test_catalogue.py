"""Pictures are found wherever the data set has them."""

import pyarrow as pa
import pytest

from vse_pipe.artifacts import images
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError
from vse_pipe.pictures import images as pictures
from vse_pipe.tools.search.catalogue import Catalogue


def catalogue(root, file: str) -> Catalogue:
    row = {"image_id": [1], "file": [file], "split": ["test"], "width": [2], "height": [2], "sha256": ["x"]}
    images.write(root, pa.table(row, images.SCHEMA), str(root))
    return Catalogue("tiny", tables.read(root / images.NAME, images.SCHEMA), pa.table({}))


def test_a_picture_inside_a_shard(tmp_path):
    (tmp_path / "t.tar").write_bytes(b"before, picture, after")
    path = catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1)
    assert pictures.shown(path) == b"picture"
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
