"""``format: regions`` in params.yaml."""

from pathlib import Path

import pytest

from tests.prepare.engine.regions._whole import SOURCE, write
from tests.toy_project import load_params
from vse_pipe.core.errors import ParamsError
from vse_pipe.project.step import waiting


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_file_of_boxes_is_missed_before_anything_runs(tmp_path):
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    node = {"format": "regions", "source": str(SOURCE), "proposals": "file", "options": {"path": "edges.csv"}}
    params = load_params(tmp_path, datasets={"toy": node})
    assert waiting(params, "prepare", "toy").because == "edges.csv does not exist yet"
    Path("edges.csv").write_text("image,x1,y1,x2,y2\np1,0,0,9,9\n")
    assert waiting(params, "prepare", "toy") is None


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
