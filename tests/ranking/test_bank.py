"""Whose queries correct the hubs, and what follows from it."""

import numpy as np
import pytest
import torch

from tests.ranking.dense import unit_vectors, whole
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, evaluation
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split

RESCORINGS = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches]
CORRECTIONS = [name for name in RESCORINGS if name != "nns"]
DIRECTIONS = ("image_to_text", "text_to_image")


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right.T


def split_of(images: int, seed: int, first_id: int = 0) -> Split:
    ids = np.arange(first_id, first_id + images)
    owners = np.repeat(ids, 3)
    vectors = unit_vectors(images, 16, seed)
    noise = unit_vectors(3 * images, 16, seed + 1)
    captions = torch.nn.functional.normalize(vectors.repeat_interleave(3, 0) + 0.8 * noise, dim=1)
    return Split(ids, np.arange(len(owners)) + 10 * first_id, owners, vectors, captions)


def rescored(name: str, ranked: Split, source: BankSource, direction: str) -> np.ndarray:
    trial = criteria.trials([ranked], source, product, 64)[direction][0]
    return whole(criteria.parse(name, {}).rerank(trial.scores, trial.bank))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", RESCORINGS)
def test_with_a_bank_of_its_own_no_query_changes_anothers_result(name, direction):
    """Each query alone, among others, and beside fifty copies of one of them: the same row."""
    ranked, source = split_of(20, 0), BankSource("train", split_of(60, 5, first_id=1000))
    together = rescored(name, ranked, source, direction)
    queries, items = (
        (ranked.images, ranked.captions) if direction == "image_to_text" else (ranked.captions, ranked.images)
    )
    crowd = torch.cat([queries, queries[:1].expand(50, -1)])
    for chosen in (queries[3:4], crowd):
        forward = direction == "image_to_text"
        scores = (
            Scores.from_sides(chosen, items, product)
            if forward
            else Scores.from_sides(items, chosen, product).transposed()
        )
        bank = source.bank(ranked, scores, direction, product, 64)
        rows = whole(criteria.parse(name, {}).rerank(scores, bank))
        expected = together[3:4] if len(chosen) == 1 else together
        np.testing.assert_allclose(rows[: len(expected)], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_with_the_ranked_queries_for_a_bank_they_do(name):
    ranked = split_of(20, 0)
    scores = Scores.from_sides(ranked.images, ranked.captions, product)
    crowd = torch.cat([ranked.images, ranked.images[:1].expand(50, -1)])
    crowded = Scores.from_sides(crowd, ranked.captions, product)
    criterion = criteria.parse(name, {})

    def gallery() -> Scores:
        return Scores.from_sides(ranked.captions, ranked.captions, product)

    alone = whole(criterion.rerank(scores, Bank(scores, True, gallery)))
    beside = whole(criterion.rerank(crowded, Bank(crowded, True, gallery)))[:20]
    assert not np.allclose(np.diff(alone), np.diff(beside), atol=1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", [name for name in RESCORINGS if INFERENCES.traits(name).item_bias])
def test_the_item_bias_ranks_as_the_criterion_does(name, own, direction):
    ranked = split_of(40, 0)
    source = BankSource("test") if own else BankSource("train", split_of(60, 5, first_id=1000))
    trial = criteria.trials([ranked], source, product, 64)[direction][0]
    criterion = criteria.parse(name, {})
    found = [
        evaluation.rank(scores, trial.truth, "pessimistic")
        for scores in (criterion.rerank(trial.scores, trial.bank), criterion.item_bias(trial.bank).apply(trial.scores))
    ]
    np.testing.assert_array_equal(found[0].ranks, found[1].ranks)
    np.testing.assert_array_equal(found[0].top, found[1].top)


def test_bank_queries_are_of_the_kind_that_is_ranked():
    ranked, other = split_of(4, 0), split_of(6, 5, first_id=1000)
    trials = criteria.trials([ranked], BankSource("train", other), product, 64)
    to_text, to_image = trials["image_to_text"][0].bank, trials["text_to_image"][0].bank
    np.testing.assert_allclose(whole(to_text.queries), other.images @ ranked.captions.T, atol=1e-6)
    np.testing.assert_allclose(whole(to_image.queries), other.captions @ ranked.images.T, atol=1e-6)
    np.testing.assert_allclose(whole(to_text.items()), other.captions @ ranked.captions.T, atol=1e-6)
    np.testing.assert_allclose(whole(to_image.items()), other.images @ ranked.images.T, atol=1e-6)
    assert not to_text.is_transductive


def test_a_bank_that_holds_what_is_ranked_is_refused():
    ranked, other = split_of(4, 0), split_of(6, 5, first_id=1000)
    BankSource("x", other).checked_against(ranked, "evaluate.bank")
    same_ids = split_of(6, 5)
    BankSource("x", same_ids).checked_against(ranked, "evaluate.bank")
    with pytest.raises(
        InputError,
        match=r"evaluate\.bank: the bank holds 4 of the vectors that are ranked, the first is image_id 0; it must",
    ):
        BankSource("x", split_of(4, 0)).checked_against(ranked, "evaluate.bank")


@pytest.mark.parametrize("name", RESCORINGS)
@pytest.mark.parametrize("own", [True, False])
def test_single_precision_is_enough(name, own):
    """Recalls of float32 scores against those of float64, hubs included."""
    ranked, other = split_of(300, 0), split_of(200, 5, first_id=1000)
    found = {}
    for precision in (torch.float32, torch.float64):
        images, captions = ranked.images.to(precision), ranked.captions.to(precision)
        scores = Scores.from_sides(captions, images, product)
        queries = scores if own else Scores.from_sides(other.captions.to(precision), images, product)
        items = images if own else other.images.to(precision)
        bank = Bank(queries, own, lambda items=items, images=images: Scores.from_sides(items, images, product))
        truth = Truth.by_image(ranked.caption_images, ranked.image_ids)
        rescored = criteria.parse(name, {}).rerank(scores, bank)
        found[precision] = evaluation.rank(rescored, truth, "pessimistic")
    close = np.isclose(found[torch.float32].ranks, found[torch.float64].ranks, atol=1)
    assert close.all()
    for k in (1, 5, 10):
        first, second = (one.metrics()[f"r@{k}"] for one in found.values())
        assert first == pytest.approx(second, abs=0.12)


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
    found = {}
    for name in ("nns", "csls", "is", "nnn", "sinkhorn"):
        rescored = criteria.parse(name, {}).rerank(scores, bank)
        found[name] = evaluation.rank(rescored, truth, "pessimistic").metrics()
    for name in ("csls", "is", "nnn", "sinkhorn"):
        assert found[name]["r@1"] > found["nns"]["r@1"], name
        assert found[name]["skew@10"] < found["nns"]["skew@10"], name
    assert found["sinkhorn"]["skew@10"] == min(one["skew@10"] for one in found.values())
