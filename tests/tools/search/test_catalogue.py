"""Pictures are found wherever the data set has them."""

import pyarrow as pa
import pytest

from pipeline.artifacts import images
from pipeline.core import tables
from pipeline.core.errors import InputError
from pipeline.pictures import read
from pipeline.tools.search.catalogue import Catalogue


def catalogue(root, file: str) -> Catalogue:
    row = {"image_id": [1], "file": [file], "split": ["test"], "width": [2], "height": [2], "sha256": ["x"]}
    images.write(root, pa.table(row, images.SCHEMA), str(root))
    return Catalogue("tiny", tables.read(root / images.NAME, images.SCHEMA), pa.table({}))


def test_a_picture_inside_a_shard(tmp_path):
    (tmp_path / "t.tar").write_bytes(b"before, picture, after")
    path = catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1)
    assert read.shown(path) == b"picture"
    (tmp_path / "t.tar").unlink()
    assert catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1) is None


def test_a_shard_outside_of_the_root(tmp_path):
    with pytest.raises(InputError, match="lies outside its root"):
        catalogue(tmp_path, "../t.tar::8:7::a.jpg").path(1)
