"""What an output was made from, and digests of images and captions."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.sealed import sealed
from vse_pipe.artifacts import captions, identity, images, names
from vse_pipe.artifacts.digests import by_split
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import IntegrityError
from vse_pipe.project import paths


def prepared(folder: Path, texts=("a cat", "a dog", "a cow"), named=None) -> Path:
    columns = {"image_id": [5, 8, 11], "file": ["a", "b", "c"], "split": ["train", "val", "test"]}
    sizes = {"width": np.ones(3, np.int32), "height": np.ones(3, np.int32), "sha256": ["1", "2", "3"]}
    if named:
        names.write(folder, TextIds.from_columns(image_id=(np.array([5, 8, 11]), pa.array(named))))
    images.write(folder, pa.table({**columns, **sizes}), ".")
    said = {"caption_id": [0, 1, 2], "image_id": [5, 8, 11], "text": list(texts), "split": columns["split"]}
    captions.write(folder, pa.table(said))
    sealed(folder)
    return folder


@pytest.fixture
def embedded(tmp_path, monkeypatch) -> Path:
    """data/embed/sum/, made from a data set and a model."""
    monkeypatch.chdir(tmp_path)
    prepared(paths.prepared("toy"))
    paths.trained("sum").mkdir(parents=True)
    identity.write(paths.trained("sum"), {}, {"weights": "1"})
    folder = paths.embedded("sum")
    folder.mkdir(parents=True)
    read = identity.parts_of(paths.prepared("toy"), *images.SPLITS, "names") | identity.parts_of(paths.trained("sum"))
    identity.write(folder, read, {"vectors": "2"})
    return folder


def test_only_the_splits_in_use_are_compared(embedded):
    prepared(paths.prepared("toy"), ("a cat", "a dog", "another cow"))
    identity.require_current(embedded, ["val"])
    message = r"sum: made from other images or captions of split test than .*toy now.*`vse-pipe embed --run sum` again, or `dvc"
    with pytest.raises(IntegrityError, match=message):
        identity.require_current(embedded)


def test_names_count_where_ids_are_text(embedded):
    prepared(paths.prepared("toy"), named=["x", "y", "z"])
    with pytest.raises(IntegrityError, match="made from other names than"):
        identity.require_current(embedded)


def test_the_inputs_in_use_alone_are_compared(embedded):
    identity.write(paths.trained("sum"), {}, {"weights": "3"})
    identity.require_current(embedded, places=[paths.prepared("toy")])
    with pytest.raises(IntegrityError, match="made from other weights than data/train/sum now holds"):
        identity.require_current(embedded, places=[paths.trained("sum")])


def test_a_file_without_inputs_is_damaged(embedded):
    (embedded / identity.NAME).write_text("{}")
    with pytest.raises(IntegrityError, match=r"made_from.json: has no inputs; run `vse-pipe embed --run sum` again"):
        identity.require_current(embedded)


def test_what_is_not_on_this_machine_is_not_compared(embedded, tmp_path):
    shutil.rmtree(paths.prepared("toy"))
    identity.require_current(embedded)
    identity.require_current(tmp_path / "elsewhere")


ROWS = {"image_id": [1, 2, 3], "split": ["test", "train", "test"]}
IMAGES = pa.table({**ROWS, "file": ["1.jpg", "2.jpg", "3.jpg"], "sha256": ["a", "b", "c"]})
CAPTIONS = pa.table({"caption_id": [7, 8, 9], **ROWS, "text": ["one", "two", "three"]})


def changed(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize("column", ["image_id", "sha256"])
def test_an_image_belongs_to_its_split_alone(column):
    was, now = by_split(IMAGES, CAPTIONS), by_split(changed(IMAGES, column, 1, IMAGES[column][0].as_py()), CAPTIONS)
    assert (was["test"] == now["test"], was["train"] == now["train"]) == (True, False)


def test_neither_where_pictures_lie_counts_nor_how_rows_are_cut_into_chunks():
    whole = by_split(IMAGES, CAPTIONS)
    assert by_split(changed(IMAGES, "file", 0, "elsewhere/1.jpg"), CAPTIONS) == whole
    assert by_split(*(pa.concat_tables([one.slice(0, 1), one.slice(1)]) for one in (IMAGES, CAPTIONS))) == whole


def test_which_box_of_a_picture_it_is_counts():
    boxed = changed(IMAGES, "file", 1, "2.jpg#xywh=1,2,3,4")
    files = ("2.jpg#xywh=1,2,3,5", "2.jpg", "x/2.jpg#xywh=1,2,3,4")
    found = [by_split(changed(boxed, "file", 1, file), CAPTIONS) for file in files]
    assert [one["train"] == by_split(boxed, CAPTIONS)["train"] for one in found] == [False, False, True]


COMMANDS = {
    "data/prepare/toy": "prepare --dataset toy",
    "data/train/max/1": "train --run max/1",
    "/home/data/here/data/evaluate/sum/nns": "evaluate --run sum",
    "data/audit/datasets/toy/prepared/metrics.json": "audit --dataset toy",
    "data/audit/datasets/toy/clean": "audit --dataset toy --noise clean",
}


@pytest.mark.parametrize("place", COMMANDS)
def test_the_place_of_an_artefact_names_the_command_that_makes_it_anew(place):
    assert identity.made_anew(Path(place)) == f"run `vse-pipe {COMMANDS[place]}` again, or `dvc repro`"
