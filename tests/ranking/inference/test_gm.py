import numpy as np
import pytest

from tests.naive import evaluate as naive
from tests.ranking.dense import dense
from vse_pipe.ranking.inference import gm
from vse_pipe.ranking.matching import Allowance


def pairs(scores: np.ndarray, k: int, mode: str, lam: float = 1.0) -> list[tuple[int, int]]:
    found = next(gm.match(dense(scores), [Allowance(k, lam)], gm.Params(mode=mode)))
    return list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))


@pytest.mark.parametrize("mode", ["rows", "literal"])
@pytest.mark.parametrize("shape", [(6, 30), (30, 6), (20, 20)])
def test_it_is_the_printed_loop_with_lambda_one(mode, shape):
    scores = np.random.default_rng(1).random(shape)
    for k in (1, 5, 10):
        assert pairs(scores, k, mode) == naive.greedy(scores.tolist(), k, 1.0, mode)


def test_lambda_is_one_whatever_is_asked():
    scores = np.random.default_rng(2).random((9, 9))
    assert pairs(scores, 1, "rows", lam=9.0) == pairs(scores, 1, "rows", lam=1.0)
    assert gm.Params().lambdas() == [1.0]
