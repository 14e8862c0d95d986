"""Ensembles of params.yaml, ranked by the command."""

from dataclasses import replace

import pytest

from tests.command_line import json_document
from tests.evaluate.embedded import ABOUT, sides
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import embeddings
from vse_pipe.project import paths

RUN, ON_CPU = PARAMS["runs"]["sum"], ("--device", "cpu")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two embedded runs with the same items: one whose vectors tell much, one whose vectors tell little."""
    monkeypatch.chdir(tmp_path)
    both = {"runs": ["sum", "max"]}
    more = {
        "ranks": {"runs": ["max", "sum"], "rule": "rrf"},
        "quick": {"runs": ["max", "sum"], "rescore": 7},
        "given": {"runs": ["max", "sum"], "weights": [0, 3]},
    }
    grid = {"inferences": ["nns", "csls", "gm", "is+rgm"]}
    write_params(tmp_path, grid=grid, runs={"sum": RUN, "max": RUN}, ensembles={"both": both, **more})
    for run, noise in (("sum", 0.3), ("max", 3.0)):
        folder = paths.embedded(run)
        folder.mkdir(parents=True)
        for name, side in zip(("images", "captions"), sides({"test": 30, "val": 20}, noise=noise), strict=True):
            embeddings.write(folder / f"{name}.parquet", replace(side, about={**ABOUT, "run": run}))


def test_runs_and_their_ensembles_are_ranked(project, call):
    found = json_document(call, "evaluate", "--inference", "nns", "--json", *ON_CPU)
    assert set(found) == {"sum", "max", "both", "ranks", "given", "quick"}
    entries = {name: found[name]["nns"]["ensemble"] for name in ("both", "ranks", "given", "quick")}
    assert entries["both"] == {"runs": ["sum", "max"], "weights": [0.5, 0.5], "rule": "mean", "rescore": None}
    assert (entries["ranks"]["rule"], entries["given"]["weights"]) == ("rrf", [0, 1])
    assert entries["quick"] == {"runs": ["max", "sum"], "weights": [1], "rule": "mean", "rescore": 7}
    same = ("image_to_text", "text_to_image", "rsum", "intervals")
    assert {key: found["given"]["nns"][key] for key in same} == {key: found["sum"]["nns"][key] for key in same}
    assert (paths.evaluated("both", "nns") / "metrics.json").is_file()
    one = json_document(call, "evaluate", "--run", "both", "--inference", "nns", "--json", *ON_CPU)
    assert one == {"both": found["both"]}
    assert found["max"]["nns"]["rsum"] < found["both"]["nns"]["rsum"] < found["sum"]["nns"]["rsum"]


def test_a_run_that_cannot_be_ranked_loses_no_figure_of_those_before(project, call):
    (paths.embedded("max") / "captions.parquet").unlink()
    status, out, err = call("evaluate", "--inference", "nns", *ON_CPU)
    assert status == 3
    assert "data/embed/max/captions.parquet does not exist" in err
    assert next(line.split()[:2] for line in out.splitlines() if "600.0" in line) == ["sum", "nns"]
