"""What an ensemble refuses; its scores are tested on trained runs in tests/embed/test_fragments.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import sides
from vse_pipe.artifacts import embeddings
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.ranking.embedded import Embedded

CPU = torch.device("cpu")


def _embedded(folder, images, captions) -> Embedded:
    folder.mkdir()
    embeddings.write(folder / embeddings.IMAGES, images)
    embeddings.write(folder / embeddings.CAPTIONS, captions)
    return Embedded.read(folder)


@pytest.fixture
def one(tmp_path) -> Embedded:
    return _embedded(tmp_path / "one", *sides({"test": 4, "val": 2}))


def test_vectors_of_two_widths_are_scored_by_the_mean_of_their_products(one, tmp_path):
    images, captions = sides({"test": 4, "val": 2}, dim=5, seed=0)
    first = one.images
    images = replace(images, ids=first.ids, image_ids=first.image_ids, splits=first.splits)
    told = one.captions
    vectors = captions.vectors[: len(told.ids)]
    captions = replace(told, vectors=vectors)
    other = _embedded(tmp_path / "other", images, captions)
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
