import json

import pytest

from pipeline.core.errors import UsageError
from pipeline.tools.search.choose import default_run
from tests.tools.search import project as artefacts


def _figures(root, content):
    (root / "reports").mkdir(exist_ok=True)
    (root / "reports/metrics.json").write_text(json.dumps(content))


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
        "sum": {"nns": {"rsum": 3.0}, "csls": {"rsum": 9.0}},
        "both": {"nns": {"rsum": 7.5}},
        "gone": {"nns": {"rsum": 99.0}},
        "scan": {"nns": {}},
    }
    _figures(tmp_path, figures)
    run, why = default_run(params, "nns")
    assert (run, why) == ("both", "the best rsum of 2 runs under nns in reports/metrics.json, 7.5")
    assert default_run(params, "csls")[0] == "sum"


@pytest.mark.parametrize("figures", [None, {}, {"sum": {"csls": {"rsum": 1.0}}}, {"sum": 3}])
def test_without_figures_the_runs_are_named(params, tmp_path, figures):
    if figures is not None:
        _figures(tmp_path, figures)
    with pytest.raises(UsageError, match=r"search which run\? .* give --run: sum, ordered, bags"):
        default_run(params, "nns")
