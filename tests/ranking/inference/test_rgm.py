import numpy as np
import pytest
from pydantic import ValidationError

from tests.naive import evaluate as naive
from tests.ranking.dense import dense
from vse_pipe.ranking.inference import rgm
from vse_pipe.ranking.matching import Allowance

SETTINGS = [Allowance(1, 1.0), Allowance(5, 1.5), Allowance(10, 6.0)]


@pytest.mark.parametrize("mode", ["rows", "literal"])
@pytest.mark.parametrize("shape", [(5, 25), (25, 5)])
def test_one_matching_for_each_setting(mode, shape):
    scores = np.random.default_rng(0).random(shape)
    found = rgm.match(dense(scores), SETTINGS, rgm.Params(mode=mode))
    for setting, pairs in zip(SETTINGS, found, strict=True):
        expected = naive.greedy(scores.tolist(), setting.k, setting.lam, mode)
        assert list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)) == expected


def test_the_grid_is_the_range_of_the_paper():
    grid = rgm.Params().lambdas()
    assert (grid[0], grid[1], grid[-1], len(grid)) == (1.0, 1.25, 10.0, 37)


def test_a_given_lambda_leaves_nothing_to_choose():
    assert rgm.Params(lam=2.5).lambdas() == [2.5]
    assert rgm.Params(grid=[3.0, 1.0, 3.0]).lambdas() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0.5}, "greater than or equal to 1"),
        ({"lam": float("inf")}, "finite"),
        ({"grid": []}, "at least 1 item"),
        ({"grid": [1.0, 0.0]}, "greater than or equal to 1"),
        ({"mode": "columns"}, "'rows', 'literal' or 'captions'"),
        ({"lambda": 2.0}, "Extra inputs"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        rgm.Params.model_validate(options)
