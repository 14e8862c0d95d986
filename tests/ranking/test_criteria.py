"""Names of criteria, what every criterion owes, and the choice of lambda."""

import numpy as np
import pytest
import torch

from tests.golden.ranking import listed
from tests.naive import evaluate as naive
from tests.ranking.dense import dense, own, whole
from vse_pipe.artifacts.evaluation import KS
from vse_pipe.core.errors import UsageError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, outcomes
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Criterion, Trial, choose_parameters
from vse_pipe.ranking.inference import csls, rgm
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.outcomes import Outcome
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores

inverted_softmax = INFERENCES.load("is")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("iss", "unknown inference criterion 'iss'; did you mean 'is'"),
        ("is+rgmm", "unknown inference criterion 'rgmm'; did you mean 'rgm'"),
        *((name, r"expected one, or a rescoring") for name in ("rgm+is", "gm+rgm", "is+csls", "qb_norm+rgm")),
        ("is+csls+rgm", r"'is\+csls\+rgm': expected one"),
    ],
)
def test_names_that_are_refused(name, message):
    with pytest.raises(UsageError, match=message) as caught:
        criteria.parse(name, {})
    assert caught.value.exit_status == 2


def test_a_composite_matches_the_rescored_scores_and_parameters_reach_their_part():
    scores = np.random.default_rng(0).standard_normal((8, 6))
    options = {"csls": csls.Params(k=2), "rgm": rgm.Params(lam=3.0), "is": inverted_softmax.Params(beta=1.0)}
    criterion = criteria.parse("csls+rgm", options)
    expected = naive.csls(scores.tolist(), 2, True)
    np.testing.assert_allclose(whole(criterion.rerank(dense(scores), own(scores))), expected)
    assert criterion.lambdas == (3.0,)
    criterion, truth = criteria.parse("is+rgm", {}), listed([np.array([0])] * 8, 6)
    pairs = next(criterion.match(criterion.rerank(dense(scores), own(scores)), [Allowance(2, 1.5)], truth))
    expected = naive.greedy(naive.inverted_softmax(scores.tolist(), 30.0, False), 2, 1.5, "rows")
    assert list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)) == expected


@pytest.mark.parametrize("name", ["is+gm", "is+hungarian"])
def test_caption_by_caption_over_several_strips_of_rescored_scores(name):
    """Image to text it changes nothing; text to image each of the three lots is a matching of its own."""
    owners = np.random.default_rng(1).permutation(np.repeat(np.arange(120), 3))
    scores = np.random.default_rng(0).standard_normal((360, 120))
    matching = name.partition("+")[2]
    params = INFERENCES.options(matching)(mode="captions")
    criterion, plain = criteria.parse(name, {matching: params}), criteria.parse(name, {})
    truth = Truth.by_image(owners, np.arange(120))
    rescored = criterion.rerank(dense(scores), own(scores))
    pairs = next(criterion.match(rescored, [Allowance(1)], truth))
    for turn in range(3):
        lot = np.flatnonzero(truth.turns() == turn)
        alone = next(plain.match(dense(whole(rescored)[lot]), [Allowance(1)], listed([np.array([0])] * 120, 120)))
        of_lot = np.isin(pairs.rows, lot)
        assert len(lot) == of_lot.sum() == 120
        there = zip(lot[alone.rows], alone.columns, strict=True)
        assert set(zip(pairs.rows[of_lot], pairs.columns[of_lot], strict=True)) == set(there)
    images = Truth.by_image(np.arange(120), owners)
    there = dense(scores.T.copy())
    found, expected = (next(one.match(there, [Allowance(2)], images)) for one in (criterion, plain))
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.columns, expected.columns)


RESCORINGS = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches]
MATCHINGS = [name for name in INFERENCES.names() if INFERENCES.traits(name).matches]
COMPARABLE = [name for name in RESCORINGS if INFERENCES.traits(name).comparable_rows]
GREEDY = [name for name in MATCHINGS if name != "hungarian"]
# One pair with the matching that takes its time.
ALL = [*RESCORINGS, *MATCHINGS, "is+hungarian", *[f"{first}+{last}" for first in COMPARABLE for last in GREEDY]]
# Sinkhorn's scaling of large scores takes hundreds of rounds, which say no more than the first.
OPTIONS = {"rgm": rgm.Params(lam=1.5), "sinkhorn": INFERENCES.options("sinkhorn")(max_iterations=50)}


def bank_of(scores: Scores) -> Bank:
    """The queries that are ranked; where items are compared with items, by their columns of scores."""

    def gallery() -> Scores:
        columns = torch.cat([strip for _, strip in scores.blocks()]).T
        unit = torch.nn.functional.normalize(columns - columns.mean(), dim=1)
        return Scores.dense(unit @ unit.T)

    return Bank(scores, True, gallery)


def result(criterion: Criterion, scores: Scores, truth: Truth) -> Outcome:
    scores = criterion.rerank(scores, bank_of(scores))
    if not criterion.matching:
        return outcomes.rank(scores, truth, "pessimistic")
    ks = (1, 5, 10)
    pairs = criterion.match(scores, [Allowance(k, criterion.lambdas[0]) for k in ks], truth)
    return outcomes.matched(dict(zip(ks, pairs, strict=True)), truth)


@pytest.mark.parametrize("name", ALL)
def test_permuted_queries_and_items_give_permuted_results(name):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((24, 60))
    rows, columns = rng.permutation(24), rng.permutation(60)
    criterion, truth = criteria.parse(name, OPTIONS), Truth.by_image(np.arange(24), np.arange(60) % 24)
    before = result(criterion, dense(scores), truth)
    after = result(criterion, dense(scores[rows][:, columns].copy()), Truth.by_image(rows, columns % 24))
    for k in (1, 5, 10):
        np.testing.assert_array_equal(after.hits[k], before.hits[k][rows])
        np.testing.assert_array_equal(after.occurrence[k], before.occurrence[k][columns])


@pytest.mark.parametrize("name", RESCORINGS)
def test_rescored_values_are_finite_whatever_the_scale(name):
    scores = np.random.default_rng(0).standard_normal((9, 11)) * 1e4
    for _, block in criteria.parse(name, OPTIONS).rerank(dense(scores), bank_of(dense(scores))).blocks():
        assert block.isfinite().all()
        assert block.dtype == torch.float64


@pytest.mark.parametrize("name", MATCHINGS)
def test_a_single_query_and_a_single_item(name):
    truth = Truth.by_image(np.array([4]), np.array([4]))
    found = result(criteria.parse(name, OPTIONS), dense(np.array([[0.3]])), truth)
    assert found.metrics()["r@1"] == 100
    assert found.lengths.tolist() == [1]


GRID = [1.0, 1.5, 2.0, 3.0, 6.0]


def relaxed(**options) -> Criterion:
    return criteria.parse("rgm", {"rgm": rgm.Params(**{"grid": GRID, **options})})


def trial(seed: int, queries: int = 60, items: int = 30):
    """Hubs in the scores, and some items with many more queries than others: a quota that is too small hurts."""
    rng = np.random.default_rng(seed)
    query_ids, item_ids = np.sort((items * rng.random(queries) ** 3).astype(int)), np.arange(items)
    scores = rng.standard_normal((queries, items)) + 1.5 * rng.standard_normal(items)
    scores += 2.5 * (query_ids[:, None] == item_ids)
    return scores, Truth.by_image(query_ids, item_ids), [{int(query)} for query in query_ids]


def naive_recalls(trials: list, mode: str) -> list[list[float]]:
    """Means over the trials, by K and lambda."""

    def recall(scores, correct, k, lam):
        return naive.matched_recall(naive.greedy(scores.tolist(), k, lam, mode), correct)

    each = [[[recall(scores, own, k, lam) for lam in GRID] for k in KS] for scores, _, own in trials]
    return np.mean(each, axis=0).round(6).tolist()


@pytest.mark.parametrize("mode", ["rows", "literal"])
@pytest.mark.parametrize("sizes", [(20, 30), (60, 12)])
def test_recall_at_every_lambda_equals_the_loops_and_the_smallest_of_the_best_is_chosen(mode, sizes):
    trials, criterion = [trial(seed, *sizes) for seed in range(3)], relaxed(mode=mode)
    expected = naive_recalls(trials, mode)
    chosen = choose_parameters(criterion, [ground(scores, truth) for scores, truth, _ in trials], False)
    np.testing.assert_allclose(chosen.recalls, expected, atol=1e-6)
    assert chosen.lambdas == {k: GRID[means.index(max(means))] for k, means in zip(KS, expected, strict=True)}


def test_queries_without_a_correct_item_take_part_and_are_in_no_figure():
    scores, none = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.7]]), np.array([], int)
    for correct, shares in (([np.array([0]), none, np.array([1])], [100.0] * 2), ([none] * 3, [0.0] * 2)):
        chosen = choose_parameters(relaxed(grid=[1.0, 3.0]), [ground(scores, listed(correct, 2))], False)
        assert chosen.recalls[0].tolist() == shares


def ground(scores: np.ndarray, truth: Truth) -> Trial:
    return Trial(dense(scores), own(scores), truth)
