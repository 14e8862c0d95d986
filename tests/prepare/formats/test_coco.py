"""COCO's annotation files: which pictures, captions and splits, and what is refused."""

import json

import pytest

from tests.prepare._data import coco, one_line, pictures, read
from vse_pipe.project.registry import FORMATS
from vse_pipe.project.sources import content


@pytest.fixture
def folder(tmp_path):
    pictures(tmp_path, ["train2017/a.png", "train2017/b.png", "val2017/a.png"])
    said = [(1, "of b\n"), (0, "second"), (0, "first")]
    coco(tmp_path / "annotations/captions_train2017.json", ["a.png", "b.png"], said)
    path = coco(tmp_path / "annotations/captions_val2017.json", ["a.png"], [(0, "of val")])
    path.write_text(path.read_text().replace("10", "77").replace("500", "9"))
    return tmp_path


def test_parts_are_splits_and_captions_stand_in_the_order_of_their_ids(folder):
    found = read("coco", folder, folder, test=0.0)
    assert found.images["file"].to_pylist() == ["train2017/a.png", "train2017/b.png", "val2017/a.png"]
    assert found.images["split"].to_pylist() == ["train", "train", "val"]
    assert found.images["image_id"].to_pylist() == [10, 11, 77]
    rows = [tuple(row.values())[:3] for row in found.captions.to_pylist()]
    assert rows == [(498, 10, "first"), (499, 10, "second"), (500, 11, "of b\n"), (9, 77, "of val")]
    assert found.broken == []
    few = read("coco", folder, folder, test="annotations/captions_val*.json", val=0.0, max_captions=1)
    assert few.captions["text"].to_pylist() == ["first", "of b\n", "of val"]
    assert few.images["split"].to_pylist()[2] == "test"


def test_one_file_beside_its_pictures(folder):
    path = coco(folder / "own.json", ["a.png"], [(0, "x")])
    assert read("coco", path, folder, images="val2017", val=0.0, test=0.0).broken == []


def test_the_files_that_it_reads(folder):
    groups = FORMATS.options("coco")(test=0.0).reads(folder)
    assert [set(content(group)) for group in groups][1:] == [{"train2017/a.png", "train2017/b.png", "val2017/a.png"}]


@pytest.mark.parametrize(("change", "message"), [
    ({"annotations": [{"id": 1, "image_id": 9, "caption": "x"}]}, "annotations of image 9, which it does not have"),
    ({"annotations": []}, "no image has an annotation"),
    ({"annotations": [{"id": 1, "image_id": 10, "caption": 3}]}, "annotations[0].caption: Input should be"),
    ({"images": [{"id": 10, "file_name": "../../x.png"}]}, "images[0]: file 'train2017/../../x.png' lies outside"),
])  # fmt: skip
def test_bad_files(folder, change, message):
    path = folder / "annotations/captions_train2017.json"
    said = [{"id": 1, "image_id": 10, "caption": "x"}]
    whole = {"images": [{"id": 10, "file_name": "a.png"}], "annotations": said}
    path.write_text(json.dumps(whole | change))
    with one_line(message):
        read("coco", folder, folder, val=0.0, test=0.0)
