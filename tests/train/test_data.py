import numpy as np

from pipeline.train import vocabulary
from pipeline.train.data import Pairs


def _pairs(n: int) -> Pairs:
    words = [*vocabulary.SPECIAL, *(f"w{i}" for i in range(n))]
    captions, _ = vocabulary.encode([f"w{i} " * (1 + i % 3) for i in range(n)], words, 10)
    array = np.arange(n * 4, dtype=np.float16).reshape(n, 4)
    return Pairs(array, np.arange(n)[::-1].copy(), captions)


def test_a_batch_is_a_plain_gather():
    pairs = _pairs(9)
    batch = pairs.batch(np.array([4, 0]))
    assert batch.features.dtype.is_floating_point
    assert batch.features.tolist() == [pairs.array[4].tolist(), pairs.array[8].tolist()]
    assert batch.tokens[1].tolist()[:3] == [vocabulary.START, 4, vocabulary.END]


def test_an_epoch_shows_every_pair_once_in_an_order_of_seed_and_epoch():
    pairs = _pairs(10)
    seen = np.concatenate([batch.pairs for batch in pairs.epoch(4, seed=3, epoch=0)])
    assert sorted(seen) == list(range(10))
    again = np.concatenate([batch.pairs for batch in pairs.epoch(4, seed=3, epoch=0)])
    other = np.concatenate([batch.pairs for batch in pairs.epoch(4, seed=3, epoch=1)])
    assert (seen == again).all()
    assert (seen != other).any()


def test_global_random_state_does_not_matter():
    pairs = _pairs(10)
    np.random.seed(0)
    first = [batch.pairs.tolist() for batch in pairs.epoch(4, seed=3, epoch=0)]
    np.random.seed(1)
    assert first == [batch.pairs.tolist() for batch in pairs.epoch(4, seed=3, epoch=0)]


def test_a_last_batch_of_one_is_left_out():
    pairs = _pairs(9)
    sizes = [len(batch.pairs) for batch in pairs.epoch(4, seed=0, epoch=0)]
    assert sizes == [4, 4]
    assert pairs.batches(4) == 2
    assert _pairs(10).batches(4) == 3
