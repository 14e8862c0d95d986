import numpy as np
import pytest

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, own
from vse_pipe.artifacts.evaluation import KS
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import Trial, choose_parameters
from vse_pipe.ranking.inference import rgm
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.metrics.recall import Truth


@pytest.mark.parametrize("mode", ["rows", "literal"])
def test_recall_at_every_lambda_equals_the_loops(mode):
    trials = [trial(seed, 20 + 10 * seed, 12) for seed in range(2)]
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(mode=mode, grid=GRID)})
    scans = [criteria.scan_relaxation(criterion, dense(scores), truth) for scores, truth, _ in trials]
    found = criteria.recalls(scans)
    assert found.shape == (len(KS), len(GRID))
    for row, k in enumerate(KS):
        for column, lam in enumerate(GRID):
            each = [
                naive.matched_recall(naive.greedy(scores.tolist(), k, lam, mode), correct)
                for scores, _, correct in trials
            ]
            assert found[row, column] == pytest.approx(sum(each) / len(each))


def test_the_matching_that_is_kept_is_the_one_a_run_at_that_lambda_gives():
    scores, truth, _ = trial(1)
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(grid=GRID)})
    keep = {1: 1.5, 5: 6.0, 10: 1.0}
    scan = criteria.scan_relaxation(criterion, dense(scores), truth, keep=keep)
    alone = criterion.match(dense(scores), [Allowance(k, lam) for k, lam in keep.items()], truth)
    for k, pairs in zip(keep, alone, strict=True):
        assert np.array_equal(scan.matchings[k].rows, pairs.rows)
        assert np.array_equal(scan.matchings[k].columns, pairs.columns)


def test_queries_without_a_correct_item_take_part_and_are_in_no_figure():
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.7]])
    truth = Truth.listed([np.array([0]), np.array([], int), np.array([1])], 2)
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(grid=[1.0, 3.0])})
    scan = criteria.scan_relaxation(criterion, dense(scores), truth, ks=(1,))
    assert (scan.queries, scan.answered.tolist()) == (2, [[2, 2]])


def test_no_query_has_a_correct_item():
    truth = Truth.listed([np.array([], int)] * 3, 2)
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(grid=[1.0, 3.0])})
    scan = criteria.scan_relaxation(criterion, dense(np.eye(3, 2)), truth, ks=(1,))
    assert criteria.recalls([scan]).tolist() == [[0.0, 0.0]]


def test_of_a_long_grid_the_measured_split_tries_some_and_the_chosen():
    scores, truth, _ = trial(1)
    grid = [1 + step / 4 for step in range(37)]
    criterion = criteria.parse("rgm", {"rgm": rgm.Params(grid=grid)})
    whole = criteria.recalls([criteria.scan_relaxation(criterion, dense(scores), truth)])
    keep = {1: 1.25, 5: 10.0, 10: 4.0}
    some = criteria.recalls([criteria.scan_relaxation(criterion, dense(scores), truth, keep=keep)])
    tried = ~np.isnan(some)
    assert np.isnan(whole).sum() == 0
    assert tried.sum(axis=1).tolist() == [14, 13, 13]
    assert tried[:, [0, -1]].all()
    assert np.array_equal(some[tried], whole[tried])
    assert tried[0, grid.index(1.25)]


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
    found = choose_parameters(criterion, [ground(scores, truth) for scores, truth, _ in trials], False).lambdas
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
    assert len(set(choose_parameters(criterion, [ground(scores, truth)], False).lambdas.values())) > 1


def test_it_is_chosen_on_the_rescored_scores():
    scores, truth, _ = trial(1)
    raw, rescored = ground(scores, truth), ground(np.array(naive.csls(scores.tolist(), 10, True)), truth)
    alone, composite = criteria.parse("rgm", {}), criteria.parse("csls+rgm", {})
    found = choose_parameters(composite, [raw], False).lambdas
    assert found == choose_parameters(alone, [rescored], False).lambdas
    assert found != choose_parameters(alone, [raw], False).lambdas
