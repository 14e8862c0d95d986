"""Runs whose test split is the same under other ids: those of training pairs that were taken out in between."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tests.command_line import caller
from tests.ranking import ranked
from tests.tools.compare import project
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import captions, images, joins
from vse_pipe.project import paths

SHIFT = 3


def _prepare(dataset: str, ranks: pa.Table, shift: int = 0, text: str = "a picture", turned: bool = False) -> str:
    """A data set that holds the pictures and captions that ``ranks`` names, with other ids. Returns the digest of test."""
    rows = ranks.to_pandas()
    owners = rows[rows["direction"] == "text_to_image"].set_index("query_id")["image_id"].sort_index()
    known = sorted(set(owners))
    order = known[::-1] if turned else known
    zeros = np.zeros(len(order), np.int32)
    digests = [f"{number // 20:064x}" for number in order]  # two pictures are alike
    pictures = {"image_id": np.array(order) + shift, "file": [f"{number}.jpg" for number in order], "sha256": digests}
    folder = paths.prepared(dataset)
    table = pa.table({**pictures, "split": ["test"] * len(order), "width": zeros, "height": zeros})
    images.write(folder, table.select(images.SCHEMA.names), "photos")
    columns = {"caption_id": owners.index + 2 * shift, "image_id": owners.to_numpy() + shift}
    texts = [f"{text} {number % 3}" for number in owners.index]  # captions that read alike
    captions.write(folder, pa.table({**columns, "text": texts, "split": ["test"] * len(owners)}))
    return joins.by_split(images.read(folder), captions.read(folder))["test"]


def _shifted(ranks: pa.Table, occurrence: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same tables with the ids of ``_prepare(shift=SHIFT)``, in plain loops."""
    by = {True: SHIFT, False: 2 * SHIFT}
    rows = ranks.to_pylist()
    for row in rows:
        of_images = row["direction"] == "image_to_text"
        row["query_id"] += by[of_images]
        row["image_id"] += SHIFT
        row["top"] = [item + by[not of_images] for item in row["top"]]
    items = occurrence.to_pylist()
    for item in items:
        item["item_id"] += by[item["direction"] == "text_to_image"]
    return pa.Table.from_pylist(rows, ranks.schema), pa.Table.from_pylist(items, occurrence.schema)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """``first`` on the data set whole, ``second`` on the data set cleaned; both have the same test split."""
    monkeypatch.chdir(tmp_path)
    nodes = {name: {"dataset": name, **PARAMS["features"]["plain"]} for name in ("whole", "cleaned")}
    sections = {
        "datasets": dict.fromkeys(nodes, PARAMS["datasets"]["toy"]),
        "features": {name: node | {"dataset": name} for name, node in nodes.items()},
        "texts": {f"words_{name}": PARAMS["texts"]["words"] | {"dataset": name} for name in nodes},
        "noises": {f"clean_{name}": PARAMS["noises"]["clean"] | {"dataset": name} for name in nodes},
        "runs": {
            run: PARAMS["runs"]["sum"]
            | {"dataset": name, "features": name, "texts": f"words_{name}", "noise": f"clean_{name}"}
            for run, name in (("first", "whole"), ("second", "cleaned"))
        },
    }
    write_params(tmp_path, **sections)
    return caller(monkeypatch, capsys)


def _write(name: str, tables: tuple[pa.Table, pa.Table], data: str) -> None:
    project.write(project.of_tables(name, *tables, data=data), paths.evaluated(name, "nns"))


def _compared(run, *more: str) -> dict:
    status, out, err = run("compare", "first", "second", "--json", "--resamples", "60", *more)
    assert status == 0, err
    return json.loads(out)["comparisons"][0]


@pytest.mark.parametrize("turned", [False, True], ids=["the same order", "another order"])
def test_the_same_pictures_under_other_ids_are_paired(run, turned):
    before, after = (ranked.tables(images=60, quality=quality, seed=1) for quality in (0.3, 0.9))
    data = _prepare("whole", before[0])
    _write("first", before, data)
    _write("second", after, data)
    wanted = _compared(run)
    other = _prepare("cleaned", before[0], SHIFT, turned=turned)
    assert other != data
    _write("second", _shifted(*after), other)
    if not turned:  # which of two alike pictures is which follows from their order
        assert _compared(run) == wanted
    assert _compared(run)["rsum"]["difference"] == wanted["rsum"]["difference"]
    assert run("compare", "first", "second")[2] == (
        "compare: first and second ranked the same pictures and captions under other ids\n"
    )


def test_other_captions_are_refused_with_their_number(run):
    tables = ranked.tables(images=60)
    _write("first", tables, _prepare("whole", tables[0]))
    _write("second", _shifted(*tables), _prepare("cleaned", tables[0], SHIFT, text="a photograph"))
    status, _, err = run("compare", "first", "second")
    assert status == 3
    assert "measured on other data, 60 and 60 images with their captions, of which 120 are on one side only" in err


def test_a_data_set_that_was_prepared_anew_is_refused(run):
    tables = ranked.tables(images=60)
    _write("first", tables, _prepare("whole", tables[0]))
    _write("second", _shifted(*tables), "0123456789abcdef")
    _prepare("cleaned", tables[0], SHIFT)
    status, _, err = run("compare", "first", "second")
    assert status == 5
    assert "made from other images or captions of split test than data/prepare/cleaned now holds" in err, err


def test_folders_of_other_data_are_refused_with_what_to_do(run):
    tables = ranked.tables(images=60)
    _write("first", tables, _prepare("whole", tables[0]))
    _write("second", _shifted(*tables), _prepare("cleaned", tables[0], SHIFT))
    status, _, err = run("compare", "data/evaluate/first/nns", "data/evaluate/second/nns")
    assert status == 3
    assert "under other ids are paired where both are named as runs of a project" in err
