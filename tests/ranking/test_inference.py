"""What every criterion owes, whatever it computes."""

import numpy as np
import pytest
import torch

from tests.ranking.dense import dense, unit_vectors
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, evaluation
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.evaluation import Outcome
from vse_pipe.ranking.inference import rgm
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import STRIP, Scores

RESCORINGS = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches]
MATCHINGS = [name for name in INFERENCES.names() if INFERENCES.traits(name).matches]
COMPARABLE = [name for name in RESCORINGS if INFERENCES.traits(name).comparable_rows]
GREEDY = [name for name in MATCHINGS if name != "hungarian"]
# One pair with the matching that takes its time.
ALL = [*RESCORINGS, *MATCHINGS, "is+hungarian", *[f"{first}+{last}" for first in COMPARABLE for last in GREEDY]]
OPTIONS = {"rgm": rgm.Params(lam=1.5)}


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
        return evaluation.rank(scores, truth, "pessimistic")
    ks = (1, 5, 10)
    pairs = criterion.match(scores, [Allowance(k, criterion.lambdas[0]) for k in ks], truth)
    return evaluation.matched(dict(zip(ks, pairs, strict=True)), truth)


def parse(name: str) -> Criterion:
    return criteria.parse(name, OPTIONS)


def assert_equal(found: Outcome, expected: Outcome) -> None:
    np.testing.assert_equal(found.metrics(), expected.metrics())  # the skewness of equal counts is NaN in both
    np.testing.assert_array_equal(found.top, expected.top)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    for k in expected.hits:
        np.testing.assert_array_equal(found.hits[k], expected.hits[k])
        np.testing.assert_array_equal(found.occurrence[k], expected.occurrence[k])


def test_every_member_is_a_rescoring_or_a_matching():
    assert sorted(RESCORINGS + MATCHINGS) == INFERENCES.names()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(STRIP + 4, 18), (18, STRIP + 4)], ids=["many queries", "many items"])
def test_nothing_depends_on_the_block(name, shape):
    queries, items = unit_vectors(shape[0], 16, 0), unit_vectors(shape[1], 16, 1)
    truth = Truth.by_image(*(np.arange(size) % 18 for size in shape))
    outcomes = [
        result(parse(name), Scores.from_sides(queries, items, lambda left, right: left @ right.T, block), truth)
        for block in (1, 7, 512)
    ]
    assert_equal(outcomes[1], outcomes[0])
    assert_equal(outcomes[2], outcomes[0])


@pytest.mark.parametrize("name", ALL)
def test_permuted_queries_and_items_give_permuted_results(name):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((24, 60))
    rows, columns = rng.permutation(24), rng.permutation(60)
    truth = Truth.by_image(np.arange(24), np.arange(60) % 24)
    shuffled = Truth.by_image(rows, columns % 24)
    before = result(parse(name), dense(scores), truth)
    after = result(parse(name), dense(scores[rows][:, columns].copy()), shuffled)
    for k in (1, 5, 10):
        np.testing.assert_array_equal(after.hits[k], before.hits[k][rows])
        np.testing.assert_array_equal(after.occurrence[k], before.occurrence[k][columns])


@pytest.mark.parametrize("name", ALL)
def test_equal_scores_throughout_answer_nothing(name):
    """As nearest-neighbour search with pessimistic ties. Captions stand in the order of their images, as in every data set."""
    images, captions = np.arange(60), np.repeat(np.arange(60), 5)
    for queries, items in [(images, captions), (captions, images)]:
        scores = dense(np.full((len(queries), len(items)), 0.25))
        found = result(parse(name), scores, Truth.by_image(queries, items)).metrics()
        assert [found[f"r@{k}"] for k in (1, 5, 10)] == [0, 0, 0]


@pytest.mark.parametrize("name", [name for name in ALL if "hungarian" not in name])
@pytest.mark.parametrize("turned", [False, True], ids=["images ask", "captions ask"])
def test_where_duplicates_stand_changes_no_figure(name, turned):
    """Captions with the same words, of one image and of several, and two images alike: items one way, queries the other. Of
    matchings with the same sum ``hungarian`` has whichever its solver finds."""
    rng = np.random.default_rng(0)
    scores = 0.2 * (rng.standard_normal((14, 42)) + 1.2 * np.repeat(np.eye(14), 3, axis=1))
    scores[:, [1, 10, 31, 32, 40]], scores[:, [5, 34]] = scores[:, [1]], scores[:, [5]]
    scores[[3, 11]] = scores[[3]]
    owners, ids = np.repeat(np.arange(14), 3), np.arange(14)
    found = []
    for seed in range(5):
        rows, columns = np.random.default_rng(seed).permutation(14), np.random.default_rng(seed + 9).permutation(42)
        there, sides = scores[rows][:, columns].copy(), (ids[rows], owners[columns])
        truth = Truth.by_image(*(sides[::-1] if turned else sides))
        answered = result(parse(name), dense(there.T.copy() if turned else there), truth)
        found.append([int(answered.hits[k].sum()) for k in (1, 5, 10)])
    assert found == found[:1] * 5


@pytest.mark.parametrize("name", ALL)
def test_duplicates_of_an_item_share_its_fate(name):
    """Two copies of each item, both correct: nobody loses an answer by it."""
    scores = np.random.default_rng(0).standard_normal((12, 12)) + 6 * np.eye(12)
    truth = Truth.by_image(np.arange(12), np.repeat(np.arange(12), 2))
    found = result(parse(name), dense(np.repeat(scores, 2, axis=1)), truth)
    assert found.metrics()["r@1"] == 100


@pytest.mark.parametrize("name", RESCORINGS)
def test_rescored_values_are_finite_whatever_the_scale(name):
    scores = np.random.default_rng(0).standard_normal((9, 11)) * 1e4
    for _, block in parse(name).rerank(dense(scores), bank_of(dense(scores))).blocks():
        assert block.isfinite().all()
        assert block.dtype == torch.float64


@pytest.mark.parametrize("name", RESCORINGS)
@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4, 1e5])
@pytest.mark.parametrize("is_own", [True, False], ids=["own bank", "other bank"])
def test_float32_ranks_large_scores_as_float64_does(name, scale, is_own):
    """Inner products of vectors that are not of unit length, as ``--similarity dot`` takes them."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((90, 16)) * rng.uniform(0.5, 1.5, (90, 1)) * (scale / 16) ** 0.5
    queries, bank = (items + rng.standard_normal(items.shape) * (scale / 16) ** 0.5 for _ in range(2))
    scores, others, gallery = (side.astype(np.float32) @ items.astype(np.float32).T for side in (queries, bank, items))
    ranks = []
    for kind in (np.float32, np.float64):
        given = Scores.dense(torch.from_numpy(scores.astype(kind)))
        among = Scores.dense(torch.from_numpy(gallery.astype(kind)))
        held = given if is_own else Scores.dense(torch.from_numpy(others.astype(kind)))
        rescored = parse(name).rerank(given, Bank(held, is_own, lambda among=among: among))
        matrix = torch.cat([rescored.strip(rows) for rows in rescored.strips()]).numpy()
        ranks.append([int((row >= row[query]).sum()) for query, row in enumerate(matrix)])
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize("name", MATCHINGS)
def test_a_single_query_and_a_single_item(name):
    found = result(parse(name), dense(np.array([[0.3]])), Truth.by_image(np.array([4]), np.array([4])))
    assert found.metrics()["r@1"] == 100
    assert found.lengths.tolist() == [1]
