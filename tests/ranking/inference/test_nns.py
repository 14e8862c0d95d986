import numpy as np

from tests.ranking.dense import dense, own, whole
from vse_pipe.ranking.inference import nns


def test_scores_stay_as_they_are():
    scores = np.random.default_rng(0).standard_normal((7, 5))
    assert np.array_equal(whole(nns.rerank(dense(scores), own(scores), nns.Params())), scores)
