"""Whose queries correct the hubs, and what follows from it."""

import numpy as np
import pytest
import torch

from tests.ranking.dense import product, unit_vectors, whole
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, outcomes
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.rows import require_others
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split

FEW = {"sinkhorn": INFERENCES.options("sinkhorn")(max_iterations=50)}
RESCORINGS = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches]


def split_of(images: int, seed: int, first_id: int = 0) -> Split:
    ids = np.arange(first_id, first_id + images)
    owners = np.repeat(ids, 3)
    vectors = unit_vectors(images, 16, seed)
    noise = unit_vectors(3 * images, 16, seed + 1)
    captions = torch.nn.functional.normalize(vectors.repeat_interleave(3, 0) + 0.8 * noise, dim=1)
    return Split(ids, np.arange(len(owners)) + 10 * first_id, owners, vectors, captions)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", RESCORINGS)
def test_with_a_bank_of_its_own_no_query_changes_anothers_result(name, direction):
    """Each query alone, among others, and beside fifty copies of one of them: the same row."""
    ranked, source = split_of(20, 0), BankSource("train", split_of(60, 5, first_id=1000))
    trial, forward = criteria.trials([ranked], source, product, 64)[direction][0], direction == "image_to_text"
    criterion = criteria.parse(name, FEW)
    together = whole(criterion.rerank(trial.scores, trial.bank))
    queries, items = (ranked.images, ranked.captions) if forward else (ranked.captions, ranked.images)
    for chosen, expected in ((queries[3:4], together[3:4]), (crowd(queries), together)):
        sides = (chosen, items) if forward else (items, chosen)
        scores = Scores.from_sides(*sides, product)
        scores = scores if forward else scores.transposed()
        rows = whole(criterion.rerank(scores, source.bank(ranked, scores, direction, product, 64)))
        np.testing.assert_allclose(rows[: len(expected)], expected, rtol=1e-4, atol=1e-4)


def crowd(queries: torch.Tensor) -> torch.Tensor:
    return torch.cat([queries, queries[:1].expand(50, -1)])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", [name for name in RESCORINGS if INFERENCES.traits(name).item_bias])
def test_the_item_bias_ranks_as_the_criterion_does(name, own, direction):
    ranked = split_of(40, 0)
    source = BankSource("test") if own else BankSource("train", split_of(60, 5, first_id=1000))
    trial = criteria.trials([ranked], source, product, 64)[direction][0]
    criterion = criteria.parse(name, FEW)
    both = criterion.rerank(trial.scores, trial.bank), criterion.item_bias(trial.bank).apply(trial.scores)
    one, other = (outcomes.rank(scores, trial.truth, "pessimistic") for scores in both)
    np.testing.assert_array_equal(one.ranks, other.ranks)
    np.testing.assert_array_equal(one.top, other.top)


def test_bank_queries_are_of_the_kind_that_is_ranked():
    ranked, other = split_of(4, 0), split_of(6, 5, first_id=1000)
    trials = criteria.trials([ranked], BankSource("train", other), product, 64)
    sides = (other.images, other.captions, ranked.captions), (other.captions, other.images, ranked.images)
    for direction, (queries, alike, items) in zip(DIRECTIONS, sides, strict=True):
        bank = trials[direction][0].bank
        np.testing.assert_allclose(whole(bank.queries), queries @ items.T, atol=1e-6, err_msg=direction)
        np.testing.assert_allclose(whole(bank.items()), alike @ items.T, atol=1e-6, err_msg=direction)
        assert not bank.is_transductive


def test_a_bank_that_holds_most_of_what_is_ranked_is_refused():
    ranked = split_of(4, 0)
    for other in (None, split_of(6, 5, first_id=1000), split_of(6, 5)):
        require_others(ranked, other, "bank")
    with pytest.raises(InputError, match="4 of the 4 images that are ranked are in the bank too"):
        require_others(ranked, split_of(4, 0, first_id=1000), "bank")


def test_what_corrects_hubs_corrects_them():
    """Anisotropic vectors with a gap between the kinds: a few images are near to everything."""
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(1 + np.arange(64))
    latent = rng.standard_normal((1200, 64)) * scale
    hubs = 0.5 * rng.standard_normal(64) * scale
    gap = np.zeros(64)
    gap[0] = 1.5

    def side(noise: float, offset: np.ndarray, source: np.ndarray) -> torch.Tensor:
        values = source + noise * rng.standard_normal(source.shape) * scale + offset
        return torch.nn.functional.normalize(torch.from_numpy(values), dim=1).float()

    images, captions = side(0.6, gap, latent), side(0.9, hubs - gap, latent)
    truth = Truth.by_image(np.arange(600), np.arange(600))
    scores = Scores.from_sides(captions[:600], images[:600], product)
    bank = Bank(Scores.from_sides(captions[600:], images[:600], product), False)
    names = ("nns", "csls", "is", "nnn", "sinkhorn")
    rescored = [criteria.parse(name, {}).rerank(scores, bank) for name in names]
    plain, *others = (outcomes.rank(one, truth, "pessimistic").metrics() for one in rescored)
    for name, one in zip(names[1:], others, strict=True):
        assert one["r@1"] > plain["r@1"], name
        assert one["skew@10"] < plain["skew@10"], name
    assert others[-1]["skew@10"] == min(one["skew@10"] for one in others)
