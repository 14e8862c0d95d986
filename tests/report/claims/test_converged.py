"""When a training had converged, told from its history."""

from dataclasses import replace

import pytest

from pipeline.artifacts import history
from pipeline.project import paths
from pipeline.report.claims import converged
from tests.toy_project import PARAMS, load_params


def write_history(run: str, rsums: list[float]) -> None:
    rows = [dict.fromkeys(history.COLUMNS, 0.0) | {"epoch": n + 1, "val_rsum": value} for n, value in enumerate(rsums)]
    paths.trained(run).mkdir(parents=True, exist_ok=True)
    history.write(paths.trained(run), rows)


def _patient(params, epochs: int) -> None:
    run = params.runs["sum"]
    params.runs["sum"] = replace(run, train=run.train.model_copy(update={"patience": epochs}))


@pytest.fixture
def params(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    node = PARAMS["runs"]["sum"]
    runs = dict.fromkeys(("sum", "hal"), node) | {"cca": {**node, "scheme": "cca"}}
    return load_params(tmp_path, runs=runs, ensembles={"both": {"first": "sum", "second": "hal"}}, scheme={"cca": {}})


@pytest.mark.parametrize(
    ("rsums", "rises"),
    [([100, 200, 250, 251, 250, 251, 250], False), ([100, 200, 240, 245, 248, 252, 251], True), ([100], True)],
)
def test_a_run(params, rsums, rises):
    write_history("sum", rsums)
    said = "sum has not converged: rsum on val was still rising in its last epochs"
    assert converged.problem(params, "sum") == (said if rises else None)


def test_by_the_patience_of_the_run(params):
    write_history("sum", [100, 200, 240, 245, 248, 252, 251])
    _patient(params, 2)
    assert converged.problem(params, "sum") == "sum has not converged: rsum on val was still rising in its last epochs"
    _patient(params, 1)
    assert converged.problem(params, "sum") is None


def test_an_ensemble_is_as_its_runs(params):
    write_history("sum", [100, 200, 190, 190, 190])
    assert converged.problem(params, "both") == (
        "hal: no data/train/hal/history.csv, so that nobody knows whether it has converged"
    )
    write_history("hal", [100, 200, 210])
    assert "hal has not converged" in converged.problem(params, "both")


def test_what_is_solved_in_one_step_has_converged(params):
    write_history("cca", [100])
    assert converged.problem(params, "cca") is None
