"""Parameters of criteria that are chosen on validation queries."""

import numpy as np
import pytest

from tests.evaluate.embedded import sides, write
from tests.evaluate.measured import RGM, measured, params
from tests.naive import evaluate as naive
from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.project import paths


def test_lambda_is_chosen_on_validation_queries_and_reported(project):
    chosen = measured(params(project), "rgm")["tuned"]
    assert set(chosen) == set(DIRECTIONS)
    for values in chosen.values():
        assert list(values) == ["lambda"]
        assert set(values["lambda"]) == {"1", "5", "10"}
        assert set(values["lambda"].values()) <= {1.0, 1.5, 3.0}
    images, captions = sides({"train": 6, "val": 20, "test": 24})
    for side in (images, captions):
        side.vectors[side.splits == "test"] = np.roll(side.vectors[side.splits == "test"], 1, axis=0)
    write(images, captions)
    assert measured(params(project), "rgm")["tuned"] == chosen
    given = params(project, inference={"rgm": {"lam": 2.0}})
    assert measured(given, "rgm")["tuned"] == {"image_to_text": {}, "text_to_image": {}}


def test_the_chosen_lambda_is_the_one_that_matches(project):
    metrics = measured(params(project), "rgm")
    images, captions = (side.split("test") for side in sides({"train": 6, "val": 20, "test": 24}))
    scores = images.vectors.astype(np.float64) @ captions.vectors.T.astype(np.float64)
    sets = {
        "image_to_text": (scores, images.ids, captions.image_ids),
        "text_to_image": (scores.T, captions.image_ids, images.ids),
    }
    assert len({lam for values in metrics["tuned"].values() for lam in values["lambda"].values()}) > 1
    for direction, (matrix, queries, items) in sets.items():
        correct = [{column for column, item in enumerate(items) if item == query} for query in queries]
        for k in KS:
            pairs = naive.greedy(matrix.tolist(), k, metrics["tuned"][direction]["lambda"][str(k)], "rows")
            expected = naive.matched_recall(pairs, correct)
            assert metrics[direction][f"r@{k}"] == pytest.approx(expected, abs=1e-6), (direction, k)


@pytest.mark.parametrize("split", [{}, {"protocol": "folds", "fold_size": 8}])
def test_recall_against_lambda_is_kept(project, split):
    metrics = measured(params(project, **split), "is+rgm")
    table = evaluation.read_relaxation(paths.evaluated("sum", "is+rgm")).to_pandas()
    assert len(table) == len(DIRECTIONS) * len(KS) * len({1.0, 1.5, 3.0})
    for (direction, k), rows in table.groupby(["direction", "k"]):
        chosen = rows[rows.chosen]
        assert chosen["lambda"].tolist() == [metrics["tuned"][direction]["lambda"][str(k)]]
        assert chosen.ranked.item() == pytest.approx(metrics[direction][f"r@{k}"], abs=1e-6)
        assert rows["lambda"].tolist() == [1.0, 1.5, 3.0]
        if not split:
            assert chosen["lambda"].item() == rows["lambda"].tolist()[rows.validation.argmax()]
    assert table.ranked.nunique() > 2


def test_without_a_choice_there_is_no_curve(project):
    measured(params(project), "rgm")
    measured(params(project, inference={"rgm": {"lam": 2.0}}), "rgm")
    assert evaluation.read_relaxation(paths.evaluated("sum", "rgm")) is None
    measured(params(project), "gm")
    assert evaluation.read_relaxation(paths.evaluated("sum", "gm")) is None


def test_everything_is_tuned_on_validation_queries_alone(project):
    options = params(project, tune=True, inference={"is": {"beta_grid": [1.0, 20.0]}, **RGM})
    chosen = measured(options, "is+rgm")["tuned"]["image_to_text"]
    assert set(chosen) == {"beta", "lambda"}
    assert chosen["beta"] in (1.0, 20.0)
    images, captions = sides({"train": 6, "val": 20, "test": 24})
    for side in (images, captions):
        side.vectors[side.splits == "test"] = np.roll(side.vectors[side.splits == "test"], 1, axis=0)
    write(images, captions)
    assert measured(options, "is+rgm")["tuned"]["image_to_text"] == chosen


def test_a_grid_of_one_value_counts_as_chosen(project):
    options = params(project, tune=True, inference={"csls": {"k_grid": [3]}})
    metrics = measured(options, "csls")
    assert metrics["tuned"]["image_to_text"] == {"k": 3}
    assert metrics["parameters"]["image_to_text"]["k"] == 3
    given = measured(params(project, inference={"csls": {"k": 3}}), "csls")
    assert given["rsum"] == metrics["rsum"] != measured(params(project), "csls")["rsum"]


def test_half_of_val_tunes_where_val_is_the_bank(project):
    options = params(project, tune=True, bank="val", inference={"csls": {"k_grid": [1, 3]}})
    metrics = measured(options, "csls")
    assert metrics["bank"] == "val"
    assert set(metrics["tuned"]["text_to_image"]) == {"k"}
