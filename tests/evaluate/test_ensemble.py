"""Ensembles: their scores and what they refuse. Trained runs: tests/embed/test_fragments.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import sides
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.ranking.vectors import Vectors

CPU = torch.device("cpu")


def _embedded(folder, images, captions) -> Vectors:
    folder.mkdir(exist_ok=True)
    embeddings.write(folder / embeddings.IMAGES, images)
    embeddings.write(folder / embeddings.CAPTIONS, captions)
    return Vectors.of_folder(folder)


@pytest.fixture
def one(tmp_path) -> Vectors:
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


def test_other_items_are_refused(one, tmp_path):
    images, captions = one.images, one.captions
    order = np.arange(len(captions.ids))[::-1]
    moved = {key: getattr(captions, key)[order] for key in ("ids", "image_ids", "splits", "vectors")}
    both = Ensemble((one, _embedded(tmp_path / "other", images, replace(captions, **moved))))
    with pytest.raises(InputError, match=r"other: other caption ids than .*one; embed the runs again"):
        both.split("test", CPU)


@pytest.fixture
def parts(tmp_path) -> tuple[Vectors, ...]:
    """The same items thrice; vectors that tell less and less."""

    def spoilt(side: Side, noise: float) -> Side:
        rng = np.random.default_rng(round(10 * noise))
        vectors = side.vectors + (noise > 1) * noise * rng.standard_normal(side.vectors.shape)
        return replace(side, vectors=(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))

    drawn = {noise: sides({"test": 6, "val": 14}, noise=noise) for noise in (1.0, 1.2, 9.0)}
    return tuple(_embedded(tmp_path / str(n), *(spoilt(side, n) for side in both)) for n, both in drawn.items())


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
