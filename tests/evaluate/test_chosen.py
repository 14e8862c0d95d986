"""Parameters of criteria that validation queries choose, and criteria without validation data."""

import json

import numpy as np
import pytest

from tests.evaluate.embedded import RGM, correct, measured, params, sides, ways, write
from tests.naive import evaluate as naive
from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.stage import evaluate, require_measured
from vse_pipe.project import paths


def write_with_other_queries() -> None:
    both = sides()
    for side in both:
        side.vectors[side.splits == "test"] = np.roll(side.vectors[side.splits == "test"], 1, axis=0)
    write(*both)


def test_lambda_is_chosen_on_validation_queries_and_reported(project):
    chosen = measured(params(project), "rgm")["tuned"]
    assert set(chosen) == set(DIRECTIONS)
    for values in chosen.values():
        assert list(values) == ["lambda"]
        assert set(values["lambda"]) == {"1", "5", "10"}
        assert set(values["lambda"].values()) <= {1.0, 1.5, 3.0}
    write_with_other_queries()
    assert measured(params(project), "rgm")["tuned"] == chosen
    given = params(project, inference={"rgm": {"lam": 2.0}})
    assert measured(given, "rgm")["tuned"] == {"image_to_text": {}, "text_to_image": {}}


def test_the_chosen_lambda_is_the_one_that_matches(project):
    metrics = measured(params(project), "rgm")
    assert len({lam for values in metrics["tuned"].values() for lam in values["lambda"].values()}) > 1
    for direction, (matrix, _, _, own, others) in ways().items():
        for k in KS:
            pairs = naive.greedy(matrix.tolist(), k, metrics["tuned"][direction]["lambda"][str(k)], "rows")
            expected = naive.matched_recall(pairs, correct(own, others))
            assert metrics[direction][f"r@{k}"] == pytest.approx(expected, abs=1e-6), (direction, k)


@pytest.mark.parametrize("split", [{}, {"protocol": "folds", "fold_size": 8}])
def test_recall_against_lambda_is_kept(project, split):
    metrics = measured(params(project, **split), "is+rgm")
    table = evaluation.read_relaxation(paths.evaluated("sum", "is+rgm")).to_pandas()
    assert len(table) == len(DIRECTIONS) * len(KS) * len({1.0, 1.5, 3.0})
    for (direction, k), rows in table.groupby(["direction", "k"]):
        chosen = rows[rows.chosen]
        assert chosen["lambda"].tolist() == [metrics["tuned"][direction]["lambda"][str(k)]]
        assert rows["lambda"].tolist() == [1.0, 1.5, 3.0]
        if not split:
            assert chosen["lambda"].item() == rows["lambda"].tolist()[rows.validation.argmax()]
    assert table.validation.nunique() > 2


def test_everything_is_tuned_on_validation_queries_alone(project):
    options = params(project, tune=True, inference={"is": {"beta_grid": [1.0, 20.0]}, **RGM})
    chosen = measured(options, "is+rgm")["tuned"]["image_to_text"]
    assert set(chosen) == {"beta", "lambda"}
    assert chosen["beta"] in (1.0, 20.0)
    write_with_other_queries()
    assert measured(options, "is+rgm")["tuned"]["image_to_text"] == chosen


def test_a_grid_of_one_value_counts_as_chosen_and_half_of_val_tunes_where_val_is_the_bank(project):
    metrics = measured(params(project, tune=True, inference={"csls": {"k_grid": [3]}}), "csls")
    assert metrics["tuned"]["image_to_text"] == {"k": 3}
    assert metrics["parameters"]["image_to_text"]["k"] == 3
    given = measured(params(project, inference={"csls": {"k": 3}}), "csls")
    assert given["rsum"] == metrics["rsum"] != measured(params(project), "csls")["rsum"]
    metrics = measured(params(project, tune=True, bank="val", inference={"csls": {"k_grid": [1, 3]}}), "csls")
    assert metrics["bank"] == "val"
    assert set(metrics["tuned"]["text_to_image"]) == {"k"}


@pytest.fixture
def without_val(project, warned):
    write(*sides({"train": 6, "test": 24}))
    return warned


def test_what_is_open_is_left_out_with_a_note_and_the_others_are_measured(project, without_val):
    found = evaluate(params(project), "sum", ["nns", "rgm", "is+rgm", "csls"], "cpu")
    assert list(found) == ["nns", "csls"]
    note = json.loads((paths.evaluations("sum") / evaluation.UNMEASURED).read_text())
    assert (note["run"], note["dataset"], set(note["criteria"])) == ("sum", "toy", {"rgm", "is+rgm"})
    why = "data/embed/sum holds no split val; give inference.rgm.lam"
    assert note["criteria"]["rgm"] == why
    assert f"evaluate sum: rgm is left out: {why}" in without_val


def test_a_criterion_that_the_call_names_is_an_error(project, without_val):
    evaluate(params(project), "sum", ["nns", "rgm"], "cpu")
    require_measured(["sum"], ["nns"])
    with pytest.raises(InputError, match=r"sum: rgm: data/embed/sum holds no split val; give inference\.rgm\.lam"):
        require_measured(["sum"], ["nns", "rgm"])


def test_a_note_stays_until_its_criterion_is_measured(project, without_val):
    evaluate(params(project), "sum", ["rgm"], "cpu")
    evaluate(params(project), "sum", ["nns"], "cpu")
    assert set(evaluation.read_unmeasured(paths.evaluations("sum"))) == {"rgm"}
    evaluate(params(project, inference={"rgm": {**RGM["rgm"], "lam": 2.0}}), "sum", ["rgm"], "cpu")
    assert not (paths.evaluations("sum") / evaluation.UNMEASURED).exists()
