import numpy as np
import pytest
import torch

from tests.train.some import some_model, some_pairs
from vse_pipe.train import model as train_model
from vse_pipe.train.data import TrainTable
from vse_pipe.train.loop import KS, validator

CPU = torch.device("cpu")


def _table(pairs, val_texts=None) -> TrainTable:
    """Every pair validates, too."""
    images = np.unique(pairs.owners)
    rows = np.array([pairs.rows[np.flatnonzero(pairs.owners == image)[0]] for image in images])
    given = pairs.array, pairs.texts, pairs, pairs.places, pairs.owners, images, rows, np.arange(len(pairs))
    return TrainTable(*given, val_texts=val_texts)


def _recall(ranked: np.ndarray, correct: set[int], k: int) -> bool:
    """Ties count against a correct item."""
    best = max(ranked[one] for one in correct)
    return sum(ranked >= best) - sum(ranked[one] == best for one in correct) < k


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_read_alike_are_ranked_once_with_all_their_images(seed):
    """As in plain loops over images and distinct texts; the caption of a text is its first."""
    pairs = some_pairs(40, each=2, seed=seed)
    numbers = np.random.default_rng(seed).integers(0, 15, 40)
    model = some_model(pairs, seed=seed)
    found = validator(_table(pairs, numbers), 20, CPU)([model])
    images, texts = np.unique(pairs.owners), np.unique(numbers)
    first = [np.flatnonzero(numbers == text)[0] for text in texts]
    rows = np.array([pairs.rows[np.flatnonzero(pairs.owners == image)[0]] for image in images])
    seen = train_model.images(model, pairs.array, rows, CPU)
    scores = (seen @ train_model.captions(model, pairs.texts, pairs.places[first], CPU).T).numpy()
    said = [{int(text) for text in numbers[pairs.owners == image]} for image in images]
    for k in KS:
        told = [_recall(row, {texts.tolist().index(t) for t in own}, k) for row, own in zip(scores, said, strict=True)]
        assert found[f"val_i2t_r{k}"] == pytest.approx(100 * np.mean(told))
        answered = [
            _recall(column, {place for place, own in enumerate(said) if text in own}, k)
            for column, text in zip(scores.T, texts.tolist(), strict=True)
        ]
        assert found[f"val_t2i_r{k}"] == pytest.approx(100 * np.mean(answered))


def test_where_all_texts_differ_it_is_the_validation_of_captions():
    pairs = some_pairs(40, each=2)
    model = some_model(pairs)
    assert validator(_table(pairs, np.arange(40)), 12, CPU)([model]) == validator(_table(pairs), 12, CPU)([model])
