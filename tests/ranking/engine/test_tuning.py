import numpy as np
import pytest

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, own
from vse_pipe.ranking import criteria
from vse_pipe.ranking.inference import rgm
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.trial import Trial, best_lambdas

GRID = [1.0, 1.5, 2.0, 3.0, 6.0]


def ground(scores: np.ndarray, truth: Truth) -> Trial:
    return Trial(dense(scores), own(scores), truth)


def trial(seed: int, queries: int = 60, items: int = 30):
    """Hubs in the scores, and some items with many more queries than others: a quota that is too small hurts."""
    rng = np.random.default_rng(seed)
    query_ids, item_ids = np.sort((items * rng.random(queries) ** 3).astype(int)), np.arange(items)
    scores = rng.standard_normal((queries, items)) + 1.5 * rng.standard_normal(items)
    scores += 2.5 * (query_ids[:, None] == item_ids)
    return scores, Truth.by_image(query_ids, item_ids), [{int(query)} for query in query_ids]


@pytest.mark.parametrize("mode", ["rows", "literal"])
@pytest.mark.parametrize("sizes", [(20, 30), (60, 12)])
def test_the_smallest_lambda_with_the_best_mean_recall(mode, sizes):
    trials = [trial(seed, *sizes) for seed in range(3)]
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(mode=mode, grid=GRID)})
    found = best_lambdas(criterion, [ground(scores, truth) for scores, truth, _ in trials])
    for k in (1, 5, 10):
        recalls = []
        for lam in GRID:
            pairs = [naive.greedy(scores.tolist(), k, lam, mode) for scores, _, _ in trials]
            each = [naive.matched_recall(one, correct) for one, (_, _, correct) in zip(pairs, trials, strict=True)]
            recalls.append(round(sum(each), 6))
        assert found[k] == GRID[recalls.index(max(recalls))]


def test_the_grid_matters():
    """The example is one in which the choice is not the same for every K."""
    scores, truth, _ = trial(1)
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(grid=GRID)})
    assert len(set(best_lambdas(criterion, [ground(scores, truth)]).values())) > 1


def test_it_is_chosen_on_the_rescored_scores():
    scores, truth, _ = trial(1)
    raw, rescored = ground(scores, truth), ground(np.array(naive.csls(scores.tolist(), 10, True)), truth)
    alone, composite = criteria.parse("rgm", {}), criteria.parse("csls+rgm", {})
    found = best_lambdas(composite, [raw])
    assert found == best_lambdas(alone, [rescored])
    assert found != best_lambdas(alone, [raw])
