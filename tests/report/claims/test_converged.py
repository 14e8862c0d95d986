"""When a training had converged, told from its history."""

import pytest

from pipeline.artifacts import history
from pipeline.project import paths
from pipeline.report.claims import converged
from tests.toy_project import PARAMS, load_params


def write_history(run: str, rsums: list[float]) -> None:
    rows = [dict.fromkeys(history.COLUMNS, 0.0) | {"epoch": n + 1, "val_rsum": value} for n, value in enumerate(rsums)]
    paths.trained(run).mkdir(parents=True, exist_ok=True)
    history.write(paths.trained(run), rows)


@pytest.fixture
def params(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    node = PARAMS["runs"]["sum"]
    runs = dict.fromkeys(("sum", "hal"), node) | {"cca": {**node, "scheme": "cca"}}
    return load_params(tmp_path, runs=runs, ensembles={"both": {"first": "sum", "second": "hal"}}, scheme={"cca": {}})


@pytest.mark.parametrize(
    ("rsums", "expected"),
    [
        ([100, 200, 250, 251, 250, 251, 250], None),
        ([100, 200, 250, 251, 250, 251, 252], "sum has not converged: its best epoch on val is the last one, 7"),
        (
            [100, 200, 240, 245, 248, 252, 251],
            "sum has not converged: its best rsum on val rose by 7.0 in the last 3 epochs",
        ),
        ([100, 250, 249, 250, 250, 251, 250], None),
        (
            [100, 248, 249, 250, 251, 251.1, 250.9],
            "sum has not converged: its best rsum on val rose by 1.1 in the last 3 epochs",
        ),
        ([100, 120, 110], "sum has not converged: its best rsum on val rose by 20.0 in the last 2 epochs"),
        ([100], "sum has not converged: its best epoch on val is the last one, 1"),
        ([100, 100], None),
    ],
)
def test_a_run(params, rsums, expected):
    write_history("sum", rsums)
    found = converged.problem(params, "sum")
    assert found == expected


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
