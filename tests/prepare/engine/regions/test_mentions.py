"""Which phrases, and which data sets, have regions."""

from pathlib import Path

import pytest

from tests.prepare._data import prepare
from tests.prepare.engine.regions._whole import SOURCE, refused, write
from vse_pipe.artifacts import regions
from vse_pipe.core.errors import InputError, MissingResource


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("rows", "splits", "message"),
    [
        (
            [(1, "a man", (60, 0, 70, 9)), (1, "a man", (0, 40, 3, 44))],
            {1: "test"},
            "phrase_id 500: its box 60, 0, 70, 9 lies outside the picture of 60 x 40 pixels (and 1 more)",
        ),
        ([(2, "a man", (0, 0, 3, 3))], {1: "test"}, "phrase_id 500: 2 is no image_id of images.parquet"),
    ],
)
def test_phrases_that_do_not_fit_their_pictures(rows, splits, message):
    write(rows, splits)
    refused(message)


def test_sources_that_hold_no_phrases():
    refused("source data/prepare/whole does not exist", MissingResource)
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    prepare("regions", SOURCE)
    (SOURCE / regions.PHRASES).unlink()
    Path("data/prepare/tiny").rename("data/prepare/other")
    refused("data/prepare/whole has no phrases.parquet: its format gives no boxes of phrases")
    with pytest.raises(InputError, match=r"data/prepare/other: holds regions already; name the data set that has"):
        prepare("regions", "data/prepare/other")
