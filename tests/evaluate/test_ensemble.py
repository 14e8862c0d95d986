"""Ensembles: what they refuse, and weights chosen on validation data. Trained runs: tests/embed/test_fragments.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import sides
from tests.naive import criteria
from tests.naive import evaluate as naive
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.ensemble import Ensemble, ascent, tuned
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.embedded import Embedded

CPU = torch.device("cpu")


def _embedded(folder, images, captions) -> Embedded:
    folder.mkdir(exist_ok=True)
    embeddings.write(folder / embeddings.IMAGES, images)
    embeddings.write(folder / embeddings.CAPTIONS, captions)
    return Embedded.read(folder)


@pytest.fixture
def one(tmp_path) -> Embedded:
    return _embedded(tmp_path / "one", *sides({"test": 4, "val": 2}))


def test_vectors_of_two_widths_are_scored_by_the_mean_of_their_products(one, tmp_path):
    images, captions = sides({"test": 4, "val": 2}, dim=5, seed=0)
    captions = replace(one.captions, vectors=captions.vectors[: len(one.captions.ids)])
    other = _embedded(tmp_path / "other", replace(one.images, vectors=images.vectors), captions)
    both = Ensemble((one, other))
    split = both.split("test", CPU)
    found = both.similarity()(split.images, split.captions)
    parts = [part.split("test", CPU) for part in (one, other)]
    torch.testing.assert_close(found, sum(part.images @ part.captions.T for part in parts) / 2)
    assert both.compared_by == "cosine + cosine"


def test_a_split_counts_only_where_every_run_embedded_it(one, tmp_path):
    both = Ensemble((one, _embedded(tmp_path / "other", *sides({"test": 4}))))
    assert both.has("test")
    assert not both.has("val")


def test_other_items_are_refused(one, tmp_path):
    images, captions = one.images, one.captions
    order = np.arange(len(captions.ids))[::-1]
    moved = {key: getattr(captions, key)[order] for key in ("ids", "image_ids", "splits", "vectors")}
    both = Ensemble((one, _embedded(tmp_path / "other", images, replace(captions, **moved))))
    with pytest.raises(InputError, match=r"other: other caption ids than .*one; embed the runs again"):
        both.split("test", CPU)


def test_a_bank_of_another_folder_is_refused(one):
    both = Ensemble((one, one))
    for use in (lambda: both.must_match(one), lambda: both.all_splits(CPU)):
        with pytest.raises(InputError, match=r"bank from its own runs: evaluate\.bank test, train or val"):
            use()


@pytest.fixture
def parts(tmp_path) -> tuple[Embedded, ...]:
    """The same items thrice; vectors that tell less and less."""

    def spoilt(side: Side, noise: float) -> Side:
        rng = np.random.default_rng(round(10 * noise))
        vectors = side.vectors + (noise > 1) * noise * rng.standard_normal(side.vectors.shape)
        return replace(side, vectors=(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))

    drawn = {noise: sides({"test": 6, "val": 14}, noise=noise) for noise in (1.0, 1.2, 9.0)}
    return tuple(_embedded(tmp_path / str(n), *(spoilt(side, n) for side in both)) for n, both in drawn.items())


def _rsum(weights, parts, rule) -> float:
    splits = [part.split("val", CPU) for part in parts]
    members = [(split.images @ split.captions.T).double().numpy() for split in splits]
    own = splits[0].image_ids[:, None] == splits[0].caption_images[None]
    total = 0.0
    for each, truth in ((members, own), ([one.T for one in members], own.T)):
        rows = zip(criteria.fused([one.tolist() for one in each], rule, weights), truth, strict=True)
        ranks = [naive.best_rank(row, set(np.flatnonzero(right)), "pessimistic") for row, right in rows]
        total += sum(sum(rank < k for rank in ranks) / len(ranks) for k in (1, 5, 10))
    return total


@pytest.mark.parametrize(("name", "rule"), [("mean", lambda row: row), ("zscore", criteria.standardised)])
def test_the_chosen_weights_are_those_of_a_loop_over_queries(parts, name, rule):
    found = tuned(Ensemble(parts, fusion=name), EvaluateParams(), CPU)
    expected = ascent(3, lambda weights: _rsum(weights, parts, rule))
    np.testing.assert_allclose(found, expected)
    assert found[2] < 1 / 3
    assert sum(found) == pytest.approx(1)
    assert _rsum(found, parts, rule) >= _rsum((1 / 3, 1 / 3, 1 / 3), parts, rule)


def test_the_best_on_the_way_counts_and_not_its_end_and_equal_weights_stay_where_nothing_is_better():
    assert ascent(2, lambda weights: -abs(weights[0] - weights[1])) == (0.5, 0.5)
    found = ascent(3, lambda weights: -sum((a - b) ** 2 for a, b in zip(weights, (0.7, 0.25, 0.05), strict=True)))
    np.testing.assert_allclose(found, (0.7, 0.25, 0.05))


def test_without_validation_data_there_is_nothing_to_choose_on(parts):
    without = _embedded(parts[0].folder, *sides({"test": 6}))
    with pytest.raises(InputError, match="no image of split 'val'"):
        tuned(Ensemble((without, parts[1])), EvaluateParams(), CPU)


def test_weighted_cosines_are_one_vector_a_side(parts):
    weights = (0.5, 0.3, 0.2)
    whole = Ensemble(parts, weights)
    assert whole.joint
    split = whole.split("test", CPU)
    assert split.images.shape == (6, 24)
    each = [part.split("test", CPU) for part in parts]
    expected = sum(w * one.images @ one.captions.T for w, one in zip(weights, each, strict=True))
    torch.testing.assert_close(whole.similarity()(split.images, split.captions), expected)
    assert torch.allclose(split.images.square().sum(dim=1), torch.ones(6))
    assert not Ensemble(parts).joint
    assert not Ensemble(parts, weights, "rrf").joint
