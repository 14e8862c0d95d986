import numpy as np
import pytest

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, own, whole
from vse_pipe.core.errors import UnknownMember, UsageError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria
from vse_pipe.ranking.inference import csls, rgm
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.metrics.recall import Truth

inverted_softmax = INFERENCES.load("is")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("iss", UnknownMember, "unknown inference criterion 'iss'; did you mean 'is'"),
        ("is+rgmm", UnknownMember, "unknown inference criterion 'rgmm'; did you mean 'rgm'"),
        ("", UnknownMember, "unknown inference criterion ''"),
        ("is+", UnknownMember, "unknown inference criterion ''"),
        ("rgm+is", UsageError, r"'rgm\+is': a matching comes last; write 'is\+rgm'"),
        ("gm+rgm", UsageError, r"'gm\+rgm': two matchings"),
        ("is+csls", UsageError, r"'is\+csls': two rescorings"),
        ("nns+is", UsageError, r"'nns\+is': two rescorings"),
        ("qb_norm+rgm", UsageError, r"the rows of qb_norm are on different scales and a matching compares rows"),
        ("is+csls+rgm", UsageError, r"'is\+csls\+rgm': 3 parts; give one rescoring and one matching at most"),
    ],
)
def test_names_that_are_refused(name, kind, message):
    with pytest.raises(kind, match=message) as caught:
        criteria.parse(name, {})
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("name", "matching", "lambdas", "needs_bank"),
    [
        ("nns", None, 0, False),
        ("is", None, 0, True),
        ("gm", "gm", 1, False),
        ("rgm", "rgm", 37, False),
        ("csls+rgm", "rgm", 37, True),
        ("nns+gm", "gm", 1, False),
    ],
)
def test_what_a_name_stands_for(name, matching, lambdas, needs_bank):
    criterion = criteria.parse(name, {})
    assert (criterion.matching.name if criterion.matching else None, len(criterion.lambdas)) == (matching, lambdas)
    assert criterion.needs_bank == needs_bank


def test_parameters_reach_their_part():
    scores = np.random.default_rng(0).standard_normal((8, 6))
    options = {"csls": csls.Params(k=2), "rgm": rgm.Params(lam=3.0), "is": inverted_softmax.Params(beta=1.0)}
    criterion = criteria.parse("csls+rgm", options)
    expected = naive.csls(scores.tolist(), 2, True)
    np.testing.assert_allclose(whole(criterion.rerank(dense(scores), own(scores))), expected)
    assert criterion.lambdas == (3.0,)


def test_a_composite_matches_the_rescored_scores():
    scores = np.random.default_rng(0).standard_normal((8, 6))
    criterion = criteria.parse("is+rgm", {})
    truth = Truth.listed([np.array([0])] * 8, 6)
    pairs = next(criterion.match(criterion.rerank(dense(scores), own(scores)), [Allowance(2, 1.5)], truth))
    expected = naive.greedy(naive.inverted_softmax(scores.tolist(), 30.0, False), 2, 1.5, "rows")
    assert list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)) == expected


def test_the_shuffle_behind_a_matching_is_always_the_same():
    scores = np.zeros((6, 40))
    truth = Truth.listed([np.array([0])] * 6, 40)
    runs = [next(criteria.parse("gm", {}).match(dense(scores), [Allowance(5)], truth)) for _ in range(2)]
    assert runs[0].columns.tolist() == runs[1].columns.tolist()
    assert runs[0].columns.tolist() != sorted(runs[0].columns.tolist())


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
        alone = next(plain.match(dense(whole(rescored)[lot]), [Allowance(1)], Truth.listed([np.array([0])] * 120, 120)))
        of_lot = np.isin(pairs.rows, lot)
        assert len(lot) == of_lot.sum() == 120
        assert set(zip(pairs.rows[of_lot], pairs.columns[of_lot], strict=True)) == set(
            zip(lot[alone.rows], alone.columns, strict=True)
        )
    images = Truth.by_image(np.arange(120), owners)
    there = dense(scores.T.copy())
    found, expected = (next(one.match(there, [Allowance(2)], images)) for one in (criterion, plain))
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.columns, expected.columns)
