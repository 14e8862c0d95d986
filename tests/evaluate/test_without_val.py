"""Criteria whose parameters are open where the data set has no split val."""

import json

import pytest

from tests.evaluate.embedded import sides, write
from tests.evaluate.measured import RGM, params
from vse_pipe.artifacts import evaluation
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, PipelineError
from vse_pipe.evaluate.stage import evaluate, require_measured
from vse_pipe.project import paths


@pytest.fixture
def without_val(project, monkeypatch):
    warned = []
    monkeypatch.setattr(console, "warn", warned.append)
    write(*sides({"train": 6, "test": 24}))
    return warned


def test_what_is_open_is_left_out_with_a_note_and_the_others_are_measured(project, without_val):
    found = evaluate(params(project), "sum", ["nns", "rgm", "is+rgm", "csls"], "cpu")
    assert list(found) == ["nns", "csls"]
    note = json.loads((paths.evaluations("sum") / evaluation.UNMEASURED).read_text())
    assert note["run"] == "sum"
    assert note["dataset"] == "toy"
    assert set(note["criteria"]) == {"rgm", "is+rgm"}
    why = "data/embed/sum holds no split val; set inference.rgm.lam in params.yaml"
    assert note["criteria"]["rgm"] == why
    assert f"evaluate sum: rgm is left out: {why}" in without_val


def test_under_tune_so_are_those_with_a_grid(project, without_val):
    found = evaluate(params(project, inference={}, tune=True), "sum", ["nns", "is", "csls"], "cpu")
    assert list(found) == ["nns"]
    why = evaluation.read_unmeasured(paths.evaluations("sum"))["is"]
    assert why.endswith("set inference.is.beta in params.yaml or take evaluate.tune: false")


def test_a_criterion_that_the_call_names_is_an_error(project, without_val):
    evaluate(params(project), "sum", ["nns", "rgm"], "cpu")
    require_measured(["sum"], ["nns"])
    with pytest.raises(InputError, match=r"sum: rgm: data/embed/sum holds no split val; set inference\.rgm\.lam"):
        require_measured(["sum"], ["nns", "rgm"])


def test_figures_of_a_time_with_val_go(project, without_val):
    write(*sides({"train": 6, "val": 20, "test": 24}))
    evaluate(params(project), "sum", ["rgm"], "cpu")
    assert paths.evaluated("sum", "rgm").is_dir()
    write(*sides({"train": 6, "test": 24}))
    (paths.evaluated("sum", "rgm") / "mine.txt").write_text("notes of the user")
    with pytest.raises(PipelineError, match=r"mine\.txt: not a file of this output"):
        evaluate(params(project), "sum", ["rgm"], "cpu")
    (paths.evaluated("sum", "rgm") / "mine.txt").unlink()
    evaluate(params(project), "sum", ["rgm"], "cpu")
    assert not paths.evaluated("sum", "rgm").exists()


def test_a_note_stays_until_its_criterion_is_measured(project, without_val):
    evaluate(params(project), "sum", ["rgm"], "cpu")
    evaluate(params(project), "sum", ["nns"], "cpu")
    assert set(evaluation.read_unmeasured(paths.evaluations("sum"))) == {"rgm"}
    evaluate(params(project, inference={"rgm": {**RGM["rgm"], "lam": 2.0}}), "sum", ["rgm"], "cpu")
    assert not (paths.evaluations("sum") / evaluation.UNMEASURED).exists()


def test_val_that_is_ranked_chooses_nothing(project):
    assert not evaluate(params(project, split="val"), "sum", ["rgm"], "cpu")
    assert evaluation.read_unmeasured(paths.evaluations("sum"))["rgm"].startswith("evaluate.split ranks val itself")


def test_no_probability_is_fitted_and_the_figures_stay(project, without_val):
    found = evaluate(params(project, calibrate="isotonic"), "sum", ["nns"], "cpu")
    assert "calibration" not in found["nns"]
    assert any("no probability is fitted" in line for line in without_val)
