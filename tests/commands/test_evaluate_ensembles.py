"""vse-pipe evaluate on an ensemble of params.yaml."""

import json
from dataclasses import replace

import pytest

from tests.evaluate.embedded import ABOUT, sides
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import embeddings, evaluation
from vse_pipe.project import paths

RUN = PARAMS["runs"]["sum"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two embedded runs with the same items: one whose vectors tell much, one whose vectors tell little."""
    monkeypatch.chdir(tmp_path)
    both = {"first": "sum", "second": "max"}
    more = {
        "tuned": {**both, "weights": "tuned"},
        "ranks": {"runs": ["max", "sum"], "fusion": "rrf"},
        "quick": {"first": "max", "second": "sum", "cascade": 7},
        "given": {"runs": ["max", "sum"], "weights": [0, 3]},
    }
    grid = {"inferences": ["nns", "csls", "gm", "is+rgm"]}
    write_params(tmp_path, grid=grid, runs={"sum": RUN, "max": RUN}, ensembles={"both": both, **more})
    for run, noise in (("sum", 0.3), ("max", 3.0)):
        folder = paths.embedded(run)
        folder.mkdir(parents=True)
        for name, side in zip(
            (embeddings.IMAGES, embeddings.CAPTIONS), sides({"test": 30, "val": 20}, noise=noise), strict=True
        ):
            embeddings.write(folder / name, replace(side, about={**ABOUT, "run": run}))


def test_runs_and_their_ensembles_are_ranked(project, call):
    status, out, err = call("evaluate", "--inference", "nns", "--json", "--device", "cpu")
    assert status == 0, err
    found = json.loads(out)
    assert set(found) == {"sum", "max", "both", "tuned", "ranks", "given", "quick"}
    assert [name for name, one in found.items() if "ensemble" in one["nns"]] == ["given", "quick", "ranks", "tuned"]
    told = {name: found[name]["nns"].get("ensemble") for name in found}
    weights = told["tuned"].pop("weights")
    assert weights[0] > weights[1]
    assert told["tuned"] == {"runs": ["sum", "max"], "weights_from": "val", "fusion": "mean"}
    assert told["ranks"]["weights"] == [0.5, 0.5]
    assert told["given"]["weights"] == [0, 1]
    assert told["quick"] == {"runs": ["max", "sum"], "cascade": 7}
    same = ("image_to_text", "text_to_image", "rsum", "intervals")
    assert {key: found["given"]["nns"][key] for key in same} == {key: found["sum"]["nns"][key] for key in same}
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
    assert "unknown run 'bothh'; did you mean 'both'? known: both, given, max, quick, ranks, sum, tuned" in err


def test_weights_are_not_chosen_on_what_is_ranked(project, call):
    status, _, err = call("-S", "evaluate.split=val", "evaluate", "--run", "tuned", "--device", "cpu")
    assert status == 3
    assert "ensembles.tuned.weights are chosen on val, which evaluate.split ranks" in err


def test_a_cascade_is_ranked_under_the_grid_but_for_matchings(project, call):
    status, out, err = call("evaluate", "--run", "quick", "--json", "--device", "cpu")
    assert status == 0, err
    found = json.loads(out)["quick"]
    assert list(found) == ["csls", "nns"]
    # What is not among the first's best seven is where the first has it.
    first = evaluation.read_ranks(paths.evaluated("quick", "nns")).to_pandas()
    status, _, err = call("evaluate", "--run", "max", "--inference", "nns", "--device", "cpu")
    assert status == 0, err
    alone = evaluation.read_ranks(paths.evaluated("max", "nns")).to_pandas()
    behind = alone["rank"] > 7
    assert behind.any()
    assert (first["rank"][behind] == alone["rank"][behind]).all()
    assert (first["rank"][~behind] != alone["rank"][~behind]).any()


def test_a_cascade_refuses_a_matching(project, call):
    status, _, err = call("evaluate", "--run", "quick", "--inference", "gm", "--device", "cpu")
    assert status == 2
    assert "gm matches all queries at once and the scores of cascade 'quick' are on one scale for a query only" in err
