"""``evaluate.approximate``: what an index finds, what the sample says of it, and what is refused."""

import numpy as np
import pytest
import torch

from tests.ranking.dense import unit_vectors
from vse_pipe.core.errors import UsageError
from vse_pipe.evaluate.engine.measure import Inputs, measure
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.engine import criteria
from vse_pipe.ranking.engine.bank import Bank, ItemBias
from vse_pipe.ranking.engine.bank_source import BankSource, cosine
from vse_pipe.ranking.engine.outcome import Depths
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.split import Split
from vse_pipe.ranking.metrics.truth import Relevance, Truth

pytest.importorskip("faiss", reason="faiss-cpu is not installed")
from vse_pipe.ranking.engine import bounded, index
from vse_pipe.ranking.engine.bounded import exact_ranks
from vse_pipe.ranking.engine.nearest import Nearest, NearestScores

IMAGES, EACH, DIM = 300, 2, 16


def unit(vectors):
    return torch.nn.functional.normalize(vectors, dim=1)


@pytest.fixture(scope="module")
def split():
    images = unit_vectors(IMAGES, DIM, 0)
    captions = unit(
        images.repeat_interleave(EACH, 0)
        + 0.35 * torch.from_numpy(np.random.default_rng(1).standard_normal((IMAGES * EACH, DIM)).astype(np.float32))
    )
    ids = np.arange(IMAGES)
    return Split(ids, np.arange(IMAGES * EACH), ids.repeat(EACH), images, captions)


def measured(split, name, similarity="cosine", bank=None, options=None, **params):
    source = BankSource("test") if bank is None else BankSource("bank", bank)
    inputs = Inputs(split, source, None, source, cosine, {"similarity": similarity})
    chosen = [criteria.parse(name, options or {})]
    return next(iter(measure(inputs, chosen, EvaluateParams(**{"resamples": 60, **params}))))


def nearest(queries, items, effort=None):
    made = index.built("IVF16,Flat", items)
    index.exert(made, effort or 16)
    return Nearest.of(made, queries, items, 64)


@pytest.mark.parametrize("name", ["nns", "csls", "nnn"])
@pytest.mark.parametrize("method", ["ivf", "hnsw"])
def test_an_index_that_misses_nothing_gives_the_exact_figures(split, name, method):
    options = {"nnn": criteria.INFERENCES.options("nnn")(k=8)}
    exact = measured(split, name, options=options)
    found = measured(split, name, options=options, approximate=method, approximate_recall=1.0, approximate_sample=40)
    for direction in ("image_to_text", "text_to_image"):
        told = found.metrics["approximate"][direction]
        assert told["recall@10"] == 1.0
        for k in (1, 5, 10):
            ours, whole = found.metrics[direction][f"r@{k}"], exact.metrics[direction][f"r@{k}"]
            assert (ours, told[f"r@{k}_over"]) == (whole, 0.0)
            low, high = found.metrics["intervals"][direction][f"r@{k}"]
            wider = exact.metrics["intervals"][direction][f"r@{k}"]
            assert low <= wider[0] + 1e-9
            assert high >= wider[1] - 1e-9
    assert found.ranks["top"].to_pylist() == exact.ranks["top"].to_pylist()
    assert found.ranks["rank"].null_count == len(found.ranks)


@pytest.mark.parametrize(("name", "method"), [("nns", "ivf_pq"), ("csls", "ivf")])
def test_the_interval_holds_what_a_poor_index_misses(split, name, method):
    exact = measured(split, name).metrics
    found = measured(split, name, approximate=method, approximate_recall=0.3, approximate_sample=10**6).metrics
    for direction in ("image_to_text", "text_to_image"):
        told = found["approximate"][direction]
        assert told["recall@10"] < 0.9
        for k in (1, 5, 10):
            # Every query was drawn, so nothing is left to chance.
            assert found[direction][f"r@{k}"] - told[f"r@{k}_over"] == pytest.approx(
                exact[direction][f"r@{k}"], abs=1e-5
            )
    assert sum(
        found["approximate"][one][f"r@{k}_over"] for one in ("image_to_text", "text_to_image") for k in (1, 5, 10)
    )
    low, high = found["intervals"]["rsum"]
    assert low < exact["rsum"] < high


def test_queries_without_a_correct_item_are_in_no_figure_and_a_bank_of_its_own_corrects(split):
    pairs = (np.arange(0, IMAGES, 2), np.arange(0, IMAGES * EACH, 2 * EACH))
    some = Split(*list(vars(split).values())[:5], Relevance.both_ways(*pairs))
    bank = Split(*(np.empty(0, np.int64),) * 3, unit_vectors(70, DIM, 5), unit_vectors(90, DIM, 6))
    exact = measured(some, "csls", bank=bank).metrics
    found = measured(some, "csls", bank=bank, approximate="ivf", approximate_recall=1.0).metrics
    for direction in ("image_to_text", "text_to_image"):
        assert found[direction]["queries"] == exact[direction]["queries"] == IMAGES // 2
        assert [found[direction][f"r@{k}"] for k in (1, 5, 10)] == [exact[direction][f"r@{k}"] for k in (1, 5, 10)]


@pytest.mark.parametrize("ties", ["pessimistic", "average", "optimistic"])
@pytest.mark.parametrize("name", ["csls", "nnn"])
def test_bounded_ranks_are_those_of_all_items(name, ties):
    images, captions = unit_vectors(90, 6, 0), unit_vectors(400, 6, 1)
    captions[200:] = captions[:200]  # every caption twice: ties
    criterion = criteria.parse(name, {"nnn": criteria.INFERENCES.options("nnn")(k=5)})
    scores = Scores.of(captions, images, cosine)
    bias = criterion.item_bias(Bank(scores, True))
    rng = np.random.default_rng(2)
    truth = Truth.listed([rng.choice(90, 2, replace=False) for _ in range(400)], 90)
    below = ItemBias(bias.scale, bias.bias - torch.from_numpy(rng.uniform(0, 0.4, 90)).float())
    found, ten = exact_ranks(criterion, scores, below, captions, images, truth, Depths(), ties)
    whole = torch.cat([block for _, block in bias.apply(scores).blocks()]).numpy()
    for row, rank in enumerate(found):
        right = truth.items[truth.starts[row] : truth.starts[row + 1]]
        best = whole[row, right].max()
        wrong = np.setdiff1d(np.arange(90), right)
        share = {"optimistic": 0.0, "average": 0.5, "pessimistic": 1.0}[ties]
        expected = (whole[row, wrong] > best).sum() + share * (whole[row, wrong] == best).sum()
        assert rank == expected or min(rank, expected) >= 10
    assert ten.shape == (400, 10)


def check_corrected(split, name, k, method, recall=0.95):
    options = {name: criteria.INFERENCES.options(name)(k=k)}
    exact = measured(split, name, options=options).metrics
    found = measured(
        split, name, options=options, approximate=method, approximate_recall=recall, approximate_sample=10**6
    ).metrics
    for direction in ("image_to_text", "text_to_image"):
        for rank in ("r@1", "r@5", "r@10"):
            corrected = found[direction][rank] - found["approximate"][direction][f"{rank}_over"]
            assert corrected == pytest.approx(exact[direction][rank], abs=1e-5)


@pytest.mark.parametrize(("name", "k"), [("csls", 50), ("nnn", 64)])
def test_the_sample_is_ranked_exactly_where_fewer_than_k_were_found(name, k):
    rng = np.random.default_rng(7)
    crowds = rng.standard_normal((800, DIM * 2)) + rng.standard_normal((40, DIM * 2))[rng.integers(0, 40, 800)]
    images = unit(torch.from_numpy(crowds.astype(np.float32)))
    noise = torch.from_numpy(rng.standard_normal((4000, DIM * 2)).astype(np.float32))
    ids, captions = np.arange(800), images.repeat_interleave(5, 0) + 0.25 * noise + 0.3 * unit_vectors(1, DIM * 2, 3)
    many = Split(ids, np.arange(4000), ids.repeat(5), images, unit(captions))
    check_corrected(many, name, k, "ivf", recall=0.2)


def test_the_sample_is_ranked_exactly_where_no_effort_finds_k(split, monkeypatch):
    """As in a graph with nodes that nothing leads to."""
    search = Nearest.of.__func__

    def some(cls, made, queries, items, listed):
        found = search(cls, made, queries, items, listed)
        found.columns[::4, 40:], found.scores[::4, 40:] = -1, -np.inf
        return found

    monkeypatch.setattr(Nearest, "of", classmethod(some))
    check_corrected(split, "nnn", 64, "hnsw")


def test_means_of_the_nearest_are_those_of_all_scores():
    one, other = unit_vectors(80, 8, 0).numpy(), unit_vectors(120, 8, 1).numpy()
    stand_in = NearestScores(nearest(one, other), nearest(other, one))
    expected = np.sort(other @ one.T, axis=1)[:, -5:].mean(axis=1)
    np.testing.assert_allclose(stand_in.transposed().known_means(5), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="nearest neighbours alone"):
        stand_in.strip(slice(0, 80))


def test_fewer_found_than_asked_for_are_no_items():
    one, other = unit_vectors(50, 8, 0).numpy(), unit_vectors(200, 8, 1).numpy()
    few = nearest(one, other, effort=1)
    assert (few.columns == -1).any()
    assert np.isneginf(few.scores[few.columns == -1]).all()
    truth = Truth.listed([np.array([row]) for row in range(50)], 200)
    bias = ItemBias(1.0, torch.zeros(200))
    for row, rank in enumerate(few.ranks(truth, bias, "pessimistic")):
        there = few.columns[row][few.columns[row] >= 0]
        assert rank == sum(one[row] @ other[item] > one[row] @ other[row] + 1e-6 for item in there)
    whole = few.filled()
    scores = one @ other.T
    for row, columns in enumerate(whole.columns):
        assert len(set(columns)) == 64
        assert set(few.columns[row]) - {-1} <= set(columns)
        np.testing.assert_allclose(whole.scores[row], scores[row, columns], atol=1e-6)
        assert (np.diff(whole.scores[row]) <= 0).all()


def test_k_may_be_large_under_a_bank_of_its_own(split):
    bank = Split(*(np.empty(0, np.int64),) * 3, unit_vectors(170, DIM, 5), unit_vectors(190, DIM, 6))
    exact = measured(split, "nnn", bank=bank).metrics
    found = measured(split, "nnn", bank=bank, approximate="ivf", approximate_recall=1.0).metrics
    for direction in ("image_to_text", "text_to_image"):
        assert [found[direction][f"r@{k}"] for k in (1, 5, 10)] == [exact[direction][f"r@{k}"] for k in (1, 5, 10)]


@pytest.mark.parametrize("size", [2.0**-10, 2.0**13])
def test_what_rounding_may_move_a_score_by_grows_with_the_vectors(size, monkeypatch):
    images, captions = unit_vectors(200, 6, 0), unit_vectors(100, 6, 1)
    images[:30] = images[0] + 1e-7 * images[30:60]  # told apart by rounding alone
    criterion = criteria.parse("nnn", {"nnn": criteria.INFERENCES.options("nnn")(k=5)})
    truth = Truth.listed([np.array([row % 60]) for row in range(100)], 200)
    best = bounded._best
    looked: list[tuple[int, int]] = []

    def seen(scores, left, bias, part, wide):
        looked.append((len(left), wide))
        return best(scores, left, bias, part, wide)

    def ranks(one, other):
        scores = Scores.of(one, other, cosine)
        bias = criterion.item_bias(Bank(scores, True))
        return exact_ranks(criterion, scores, bias, one, other, truth, Depths(), "pessimistic")[0]

    monkeypatch.setattr(bounded, "_best", seen)
    expected, steps = ranks(captions, images), list(looked)
    looked.clear()
    np.testing.assert_array_equal(ranks(size * captions, size * images), expected)
    assert looked == steps
    assert len(steps) > 1


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("is", {}, "ranks under csls, nnn, nns, not is"),
        ("csls+gm", {}, r"not csls\+gm"),
        ("nnn", {}, "no larger k"),
        ("nns", {"recall": [100]}, "evaluate.recall has a larger K"),
        ("nns", {"protocol": "folds", "fold_size": 100}, "evaluate.protocol full"),
        ("nns", {"similarity": "order"}, "under cosine or dot"),
    ],
)
def test_what_it_cannot_do_is_refused(split, name, params, said):
    with pytest.raises(UsageError, match=said):
        measured(split, name, approximate="ivf", **params)


def test_an_index_needs_items_and_memory():
    with pytest.raises(UsageError, match="ivf_pq is of 16 items at least, these are 9; there is another way"):
        index.chosen("ivf_pq", 9, 4, 100, "evaluate.memory", "there is another way")
    with pytest.raises(
        UsageError, match=r"evaluate\.memory: 1 MiB is too little for an index of 1,000,000 items of 256 numbers"
    ):
        index.chosen("ivf_pq", 10**6, 256, 1, "evaluate.memory", "wait")
    assert index.chosen("ivf_pq", 10**6, 256, 100, "evaluate.memory", "wait") == "IVF2048,PQ128x4fs"
