import json

import numpy as np
import pytest

from tests.tools.search import project as artefacts
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.tools.search.choose import default_run


def _figures(root, content):
    (root / "reports").mkdir(exist_ok=True)
    (root / "reports/metrics.json").write_text(json.dumps(content))


def _embedded(run, data):
    about = {"data": json.dumps({"test": data})}
    side = Side(np.arange(1), np.arange(1), np.array(["test"]), np.ones((1, 2), np.float32), about)
    embeddings.write(paths.embedded(run) / embeddings.IMAGES, side)


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return artefacts.params(tmp_path)


def test_the_only_run_is_chosen_without_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = {"sum": artefacts.RUNS["sum"]}
    assert default_run(artefacts.params(tmp_path, runs=runs, ensembles={}), "nns") == ("sum", "the only run")


def test_the_best_rsum_under_the_criterion_is_chosen_among_the_runs_of_params(params, tmp_path):
    figures = {
        "sum": {"nns": {"rsum": 3.0}, "csls": {"rsum": 9.0}, "data": "ours"},
        "both": {"nns": {"rsum": 7.5}, "data": "ours"},
        "gone": {"nns": {"rsum": 99.0}, "data": "ours"},
        "scan": {"nns": {}, "data": "ours"},
        "ordered": {"nns": {"rsum": 99.0}, "data": "the demo's"},
        "bags": {"nns": {"rsum": 99.0}, "data": "ours"},
    }
    _figures(tmp_path, figures)
    for run in ("sum", "scan", "ordered"):
        _embedded(run, "ours")
    run, why = default_run(params, "nns")
    assert (run, why) == ("both", "the best rsum of 2 runs under nns in reports/metrics.json, 7.5")
    assert default_run(params, "csls")[0] == "sum"


@pytest.mark.parametrize("figures", [None, {}, {"sum": {"csls": {"rsum": 1.0}}}, {"sum": 3}])
def test_without_figures_the_runs_are_named(params, tmp_path, figures):
    if figures is not None:
        _figures(tmp_path, figures)
    with pytest.raises(UsageError, match=r"search which run\? .* give --run: sum, ordered, bags"):
        default_run(params, "nns")


@pytest.mark.parametrize("data", ["the demo's", None])
def test_figures_of_other_data_choose_nothing(params, tmp_path, data):
    _figures(tmp_path, {"sum": {"nns": {"rsum": 350.0}} | ({"data": data} if data else {})})
    _embedded("sum", "ours")
    with pytest.raises(
        UsageError, match="has figures of other data than is embedded here; make it with `vse-pipe report`"
    ):
        default_run(params, "nns")


def test_runs_of_different_data_are_not_compared(params, tmp_path):
    _figures(tmp_path, {run: {"nns": {"rsum": 350.0}, "data": run} for run in ("sum", "scan")})
    for run in ("sum", "scan"):
        _embedded(run, run)
    with pytest.raises(UsageError, match="are of different data and cannot be compared; give --run: sum, "):
        default_run(params, "nns")
