"""`vse-pipe choose`: settings of a grid against a loop over trainings, and the run that it writes into params.yaml."""

import datetime
from pathlib import Path

import pytest

from tests.command_line import caller, failure, json_document, output
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import DeadRun, MissingResource, ParamsError, UsageError
from vse_pipe.project.params.load import load
from vse_pipe.tools import choose
from vse_pipe.train import stage as train_stage

pytestmark = pytest.mark.acceptance

GRID = "sum: {train.lr: [1.0e-2, 1.0e-4], loss.margin: [0.1, 0.3]}\n"


@pytest.fixture
def project(made):
    path = write_params(made, train=PARAMS["train"] | {"epochs": 2})
    path.write_text("# kept\n" + path.read_text())
    (made / "grid.yaml").write_text(GRID)
    return made


@pytest.fixture
def call(project, monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def _written(root):
    return load(root / "params.yaml")


def test_the_best_on_val_is_written_and_nothing_of_test_is_read(project, call):
    evaluated = {path: path.read_bytes() for path in Path("data/evaluate").rglob("*") if path.is_file()}
    found = json_document(call, "choose", "--grid", "grid.yaml", "--json", "--device", "cpu")["sum"]
    assert [one["values"] for one in found["tried"]] == [
        {"train.lr": lr, "loss.margin": margin} for lr in (1e-2, 1e-4) for margin in (0.1, 0.3)
    ]
    for one in found["tried"]:
        assert one["val_rsum"] == model_files.read_history(Path(one["out"])).val_rsum.max()
    best = max(found["tried"], key=lambda one: one["val_rsum"])
    assert found["best"] == best
    params = _written(project)
    assert params.groups["sum"] == tuple(f"sum/{seed}" for seed in (1, 2, 3, 4, 5))
    run = params.runs["sum/1"]
    assert {"train.lr": run.train.lr, "loss.margin": run.loss.params.margin} == best["values"]
    assert (project / "params.yaml").read_text().startswith("# kept\n")
    assert evaluated == {path: path.read_bytes() for path in Path("data/evaluate").rglob("*") if path.is_file()}
    out, err = output(call, "choose", "--grid", "grid.yaml", "--device", "cpu", "--seeds", "3")
    assert err.count("is up to date") == 4, "the seeds that the first call wrote train nothing anew"
    assert (out.count("* sum"), len(_written(project).groups["sum"])) == (1, 3)


def test_a_dead_setting_ends_no_other_and_is_not_chosen(project, call, monkeypatch):
    real = train_stage.train

    def train(params, run, device, out):
        if params.runs[run].train.lr > 1e-3:
            raise DeadRun("it is dead")
        return real(params, run, device, out)

    monkeypatch.setattr(train_stage, "train", train)
    (project / "grid.yaml").write_text("sum: {train.lr: [1.0e-2, 1.0e-4]}\n")
    out, err = output(call, "choose", "--grid", "grid.yaml", "--device", "cpu")
    assert "warning: it is dead" in err
    assert "  sum train.lr=0.01: dead\n" in out
    assert _written(project).runs["sum/1"].train.lr == 1e-4
    (project / "grid.yaml").write_text("sum: {train.lr: [1.0e-2, 2.0e-2]}\n")
    err = failure(call, DeadRun.exit_status, "choose", "--grid", "grid.yaml", "--device", "cpu")
    assert "all settings of run 'sum' are dead; the last: it is dead" in err


def test_what_was_tried_under_set_is_not_written(project, call):
    (project / "grid.yaml").write_text("sum: {train.lr: [1.0e-2]}\n")
    _, err = output(call, "-S", "train.epochs=1", "choose", "--grid", "grid.yaml", "--device", "cpu")
    assert "the best setting of sum has not converged: one epoch does not tell" in err
    assert _written(project).runs["sum/1"].train.epochs == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summ: {train.lr: [1]}", "unknown run 'summ'; did you mean 'sum'"),
        ("sum: {}", "grid.yaml sum: expected lists of values by address"),
        ("sum: {train.lr: 1}", "grid.yaml sum: expected lists of values by address"),
        ("{}", "grid.yaml: expected runs"),
        ("sum: {train.lr: [1, 2]}\nmax: {train.lr: [1]}", "these have sum 2, max 1"),
    ],
)
def test_what_is_wrong_with_a_grid_is_said(project, text, said):
    params = load(write_params(project, runs={**PARAMS["runs"], "max": {**PARAMS["runs"]["sum"], "loss": "max"}}))
    (project / "grid.yaml").write_text(text)
    with pytest.raises(UsageError if text.startswith("sum: {train.lr: [1, 2]}") else ParamsError, match=said):
        choose.read(project / "grid.yaml", params)


def test_no_grid_and_a_value_that_does_not_fit(project):
    with pytest.raises(MissingResource, match="no such file"):
        choose.read(Path("none.yaml"), _written(project))
    before = (project / "params.yaml").read_bytes()
    wrong = {"train.lr": -1, "lr": 1, "train.epochs": datetime.date(2020, 1, 1), "loss.margin=5;": 1}
    for address, value in wrong.items():
        with pytest.raises(ParamsError, match=r"runs\.sum\.(options\.)?" + address.partition("=")[0]):
            choose.params_of(choose.Candidate("sum", {address: value}), [], [])
    assert (project / "params.yaml").read_bytes() == before
