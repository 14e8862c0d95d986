"""What is said of a training that had not converged when it ended."""

import pytest

from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import model_files
from vse_pipe.core.files import write_json
from vse_pipe.project import paths
from vse_pipe.report import claims


def write_ended(run: str, **ended: object) -> None:
    """config.json of a run, without a model beside it."""
    paths.trained(run).mkdir(parents=True, exist_ok=True)
    write_json(paths.trained(run) / model_files.CONFIG, {"sha256": {}, **({"ended": ended} if ended else {})})


@pytest.fixture
def params(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runs = dict.fromkeys(("sum", "hal"), PARAMS["runs"]["sum"])
    return load_params(tmp_path, runs=runs, ensembles={"both": {"first": "sum", "second": "hal"}})


def test_a_run(params):
    write_ended("sum", converged=True)
    assert claims.problem(params, "sum") is None
    write_ended("sum", converged=False)
    assert claims.problem(params, "sum") == "sum has not converged: rsum on val was still rising in its last epochs"
    write_ended("sum", converged=False, epoch=1, by="epochs")
    assert claims.problem(params, "sum") == "sum has not converged: one epoch does not tell"
    write_ended("sum")
    assert claims.problem(params, "sum") == (
        "sum: trained before config.json told whether it has converged; train it again"
    )


def test_an_ensemble_is_as_its_runs(params):
    write_ended("sum", converged=True)
    assert claims.problem(params, "both") == (
        "hal: no data/train/hal/config.json, so that nobody knows whether it has converged"
    )
    write_ended("hal", converged=False)
    assert "hal has not converged" in claims.problem(params, "both")
