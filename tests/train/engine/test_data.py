import numpy as np
import torch

from tests.train.some import some_pairs
from vse_pipe.artifacts.texts import Texts
from vse_pipe.train.data import Pairs, text_lengths


def test_a_batch_is_a_plain_gather():
    pairs = some_pairs(9)
    batch = pairs.batch(np.array([4, 0]))
    assert batch.features.dtype == torch.float32
    assert batch.features.tolist() == [pairs.array[1].tolist(), pairs.array[2].tolist()]
    assert batch.owners.tolist() == [20, 10]
    tokens, lengths = batch.texts
    for row, place in enumerate([4, 0]):
        start, length = pairs.texts.tokens.starts[place], pairs.texts.tokens.lengths[place]
        assert lengths[row] == length
        assert tokens[row, :length].tolist() == pairs.texts.tokens.tokens[start : start + length].tolist()
        assert not tokens[row, length:].any()


def test_a_batch_of_text_vectors():
    array = np.arange(12, dtype=np.float16).reshape(4, 3)
    texts = Texts("vectors", np.arange(4), {}, None, [], array, np.array([3, 2, 1, 0]))
    pairs = Pairs(np.eye(4, dtype=np.float32), np.arange(4), texts, np.array([1, 0, 2, 3]), np.arange(4))
    (vectors,) = pairs.batch(np.array([0, 3])).texts
    assert vectors.dtype == torch.float32
    assert vectors.tolist() == [array[2].tolist(), array[0].tolist()]
    assert text_lengths(texts, np.array([0, 1])).tolist() == [1, 1]


def test_parts_of_a_batch_are_the_batch():
    batch = some_pairs(10).batch(np.array([7, 1, 3, 9, 2]))
    parts = batch.split(2)
    assert [len(part.pairs) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.features for part in parts]), batch.features)
    assert torch.equal(torch.cat([part.texts[0] for part in parts]), batch.texts[0])
    assert torch.equal(torch.cat([part.texts[1] for part in parts]), batch.texts[1])
    assert torch.equal(torch.cat([part.owners for part in parts]), batch.owners)
    assert np.concatenate([part.pairs for part in parts]).tolist() == [7, 1, 3, 9, 2]
