"""What changes a split's digest, and what does not."""

import pyarrow as pa
import pytest

from vse_pipe.artifacts.joins import by_split

IMAGES = pa.table(
    {
        "image_id": [1, 2, 3],
        "file": ["1.jpg", "2.jpg", "3.jpg"],
        "split": ["test", "train", "test"],
        "sha256": ["a", "b", "c"],
    }
)
CAPTIONS = pa.table(
    {
        "caption_id": [7, 8, 9],
        "image_id": [1, 2, 3],
        "text": ["one", "two", "three"],
        "split": ["test", "train", "test"],
    }
)


def changed(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def test_of_every_split_that_has_images():
    found = by_split(IMAGES, CAPTIONS)
    assert list(found) == ["train", "test"]
    assert found["train"] != found["test"]
    assert all(len(digest) == 16 and int(digest, 16) for digest in found.values())


@pytest.mark.parametrize("column", ["image_id", "sha256"])
def test_an_image_belongs_to_its_split_alone(column):
    was, now = by_split(IMAGES, CAPTIONS), by_split(changed(IMAGES, column, 1, IMAGES[column][0].as_py()), CAPTIONS)
    assert was["test"] == now["test"]
    assert was["train"] != now["train"]


@pytest.mark.parametrize("column", ["caption_id", "image_id", "text"])
def test_a_caption_counts(column):
    now = by_split(IMAGES, changed(CAPTIONS, column, 1, CAPTIONS[column][0].as_py()))
    assert now["train"] != by_split(IMAGES, CAPTIONS)["train"]


def test_where_the_pictures_lie_does_not():
    assert by_split(changed(IMAGES, "file", 0, "elsewhere/1.jpg"), CAPTIONS) == by_split(IMAGES, CAPTIONS)


def test_which_box_of_a_picture_it_is_does():
    boxed = changed(IMAGES, "file", 1, "2.jpg#xywh=1,2,3,4")
    found = [
        by_split(changed(boxed, "file", 1, file), CAPTIONS)
        for file in ("2.jpg#xywh=1,2,3,5", "2.jpg", "x/2.jpg#xywh=1,2,3,4")
    ]
    was = by_split(boxed, CAPTIONS)
    assert [one["train"] == was["train"] for one in found] == [False, False, True]
    assert {one["test"] for one in found} == {was["test"]} == {by_split(IMAGES, CAPTIONS)["test"]}


def test_neither_does_how_rows_are_cut_into_chunks():
    cut = [pa.concat_tables([table.slice(0, 1), table.slice(1)]) for table in (IMAGES, CAPTIONS)]
    assert by_split(*cut) == by_split(IMAGES, CAPTIONS)


def test_where_a_text_ends_counts():
    moved = changed(changed(CAPTIONS, "text", 0, "onet"), "text", 2, "hree")
    assert by_split(IMAGES, moved)["test"] != by_split(IMAGES, CAPTIONS)["test"]


def test_captions_may_come_in_blocks():
    def blocks(names: list[str]):
        yield from (CAPTIONS.select(names).slice(start, 2) for start in (0, 2))

    assert by_split(IMAGES, blocks) == by_split(IMAGES, CAPTIONS)
