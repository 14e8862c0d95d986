"""vse-pipe evaluate on an ensemble of params.yaml."""

import json
from dataclasses import replace

import pytest

from pipeline.artifacts import embeddings
from pipeline.project import paths
from tests.evaluate.embedded import ABOUT, sides
from tests.toy_project import PARAMS, write_params

RUN = PARAMS["runs"]["sum"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two embedded runs with the same items: one whose vectors tell much, one whose vectors tell little."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, runs={"sum": RUN, "max": RUN}, ensembles={"both": {"first": "sum", "second": "max"}})
    for run, noise in (("sum", 0.3), ("max", 3.0)):
        folder = paths.embedded(run)
        folder.mkdir(parents=True)
        for name, side in zip((embeddings.IMAGES, embeddings.CAPTIONS), sides({"test": 30}, noise=noise), strict=True):
            embeddings.write(folder / name, replace(side, about={**ABOUT, "run": run}))


def test_runs_and_their_ensembles_are_ranked(project, call):
    status, out, err = call("evaluate", "--inference", "nns", "--json", "--device", "cpu")
    assert status == 0, err
    found = json.loads(out)
    assert set(found) == {"sum", "max", "both"}
    assert (paths.evaluated("both", "nns") / "metrics.json").is_file()


def test_one_ensemble_is_ranked_between_its_runs(project, call):
    rsum = {}
    for run in ("sum", "max", "both"):
        status, out, err = call("evaluate", "--run", run, "--inference", "nns", "--json", "--device", "cpu")
        assert status == 0, err
        rsum[run] = json.loads(out)[run]["nns"]["rsum"]
    assert rsum["max"] < rsum["both"] < rsum["sum"]


def test_a_typo_gets_the_near_miss_among_ensembles_too(project, call):
    status, _, err = call("evaluate", "--run", "bothh", "--device", "cpu")
    assert status == 2
    assert "unknown run 'bothh'; did you mean 'both'? known: both, max, sum" in err
