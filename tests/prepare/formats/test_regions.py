"""``format: regions`` in params.yaml, and what ``check`` says of what it made."""

import shutil
from pathlib import Path

import pytest

from tests.prepare._data import prepare
from tests.prepare.engine.regions._whole import SOURCE, write
from tests.rules.sources import ROOT
from tests.toy_project import load_params
from vse_pipe.artifacts import phrases, regions
from vse_pipe.core.errors import ParamsError
from vse_pipe.prepare.check import problems
from vse_pipe.project.nodes import nodes
from vse_pipe.project.params.document import read_document
from vse_pipe.tools.check import dvc_yaml


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_check_compares_boxes_with_pictures_row_by_row(tmp_path):
    node = {"format": "regions", "source": str(SOURCE)}
    write([(1, "a man", (0, 0, 9, 9)), (1, "the dog", (3, 3, 9, 9))], {1: "test"})
    prepare("regions", SOURCE, count=2).rename("data/prepare/toy")
    params = load_params(tmp_path, datasets={"toy": node})
    checked = next(one for one in nodes(params) if one.group == "prepare")
    assert problems(params, checked) == []
    spoken = phrases.read(checked.out)
    phrases.write(checked.out, spoken.slice(1))
    assert [one.what for one in problems(params, checked)] == [
        "1 ids are not in data/prepare/toy/phrases.parquet, the first is caption_id 500"
    ]
    phrases.write(checked.out, spoken)
    table = regions.read(checked.out)
    regions.write(checked.out, table.take([1, 0, 2, 3]), str(SOURCE))
    assert [one.what for one in problems(params, checked)] == [
        "its image_ids are not those of data/prepare/toy/images.parquet, row by row"
    ]


def test_a_file_of_boxes_is_missed_before_anything_runs(tmp_path):
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    node = {"format": "regions", "source": str(SOURCE), "proposals": "file", "options": {"path": "edges.csv"}}
    params = load_params(tmp_path, datasets={"toy": node})
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    told = "params.yaml datasets.toy: edges.csv does not exist; put it there or correct its path"
    assert told in [one.line for one in dvc_yaml.problems(params, read_document(tmp_path / "params.yaml"))]
    Path("edges.csv").write_text("image,x1,y1,x2,y2\np1,0,0,9,9\n")
    assert told not in [one.line for one in dvc_yaml.problems(params, read_document(tmp_path / "params.yaml"))]


def test_params_name_the_proposals_and_their_options(tmp_path):
    node = {"format": "regions", "source": "data/prepare/whole"}
    assert load_params(tmp_path, datasets={"toy": node | {"options": {"scales": [0.5]}}})
    for given, message in [
        (
            {"proposals": "window"},
            "datasets.toy.proposals: unknown proposals 'window'; did you mean 'windows'? known: ",
        ),
        ({"options": {"scale": [0.5]}}, "datasets.toy.options.scale: unknown key; did you mean 'scales'?"),
        ({"options": {"scales": [2.0]}}, "datasets.toy.options.scales.0: input should be less than or equal to 1"),
        ({"count": 0}, "datasets.toy.count: input should be greater than 0"),
        ({"splits": ["tset"]}, "datasets.toy.splits.0: "),
    ]:
        with pytest.raises(ParamsError) as caught:
            load_params(tmp_path, datasets={"toy": node | given})
        assert message in str(caught.value)
