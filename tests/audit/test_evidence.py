"""Doubts without a trained run, against loops and on pairs whose truth is known."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from vse_pipe.audit import evidence
from vse_pipe.audit import pool as pools
from vse_pipe.audit.evidence import measure
from vse_pipe.audit.pool import PairPool
from vse_pipe.audit.share import estimate
from vse_pipe.train.mixture import auc

IMAGES, EACH = 400, 3


def _pool(
    images: int = IMAGES,
    each: int = EACH,
    share: float = 0.0,
    together: bool = False,
    joint: bool = False,
    seed: int = 0,
    noise: float = 0.5,
) -> tuple[PairPool, np.ndarray]:
    """Captions are a linear map of their image and noise; a ``share`` of them is shown with another image, all captions
    of an image alike if ``together``. Second result: which are."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((images, 24))
    ways = np.eye(24) if joint else rng.standard_normal((24, 20)) / 5
    owners = np.repeat(np.arange(images), each)
    texts = vectors[owners] @ ways + noise * rng.standard_normal((images * each, ways.shape[1]))
    if together:
        moved = rng.permutation(images)[: round(share * images)]
        target = np.arange(images)
        target[moved] = np.roll(moved, 1)
        wrong = np.isin(owners, moved)
        shown = target[owners]
    else:
        moved = rng.permutation(images * each)[: round(share * images * each)]
        shown, wrong = owners.copy(), np.zeros(len(owners), bool)
        shown[moved] = owners[np.roll(moved, 1)]
        wrong[moved] = shown[moved] != owners[moved]
    used, shown = np.unique(shown, return_inverse=True)
    unit = pools.unit
    return PairPool.create(unit(vectors[used].astype("f4")), unit(texts.astype("f4")), shown, joint, seed), wrong


def test_standardised_products_are_those_of_all_images_and_all_captions():
    pool, _ = _pool(40, 2, joint=True)
    rows = np.array([3, 17, 55])
    others = np.array([[0, 8, 39], [21, 8, 1]])
    compare = pools.standardised(pool, pool.text_vectors, pool.image_vectors)
    for images in others:
        columns = compare(rows, images)
        assert columns.shape == (3, 2)
        for place, (caption, image) in enumerate(zip(rows, images, strict=True)):
            over_images = [float(pool.texts[caption] @ other) for other in pool.images]
            over_captions = [float(other @ pool.images[image]) for other in pool.texts]
            for column, values in enumerate((over_images, over_captions)):
                expected = (pool.texts[caption] @ pool.images[image] - np.mean(values)) / np.std(values)
                assert columns[place, column] == pytest.approx(expected, abs=1e-4)


def test_other_images_are_of_the_same_fold_never_the_own_one_and_as_likely_as_each_other():
    pool, _ = _pool(23, 3)
    rng, captions = np.random.default_rng(5), np.arange(69)
    drawn = np.stack([pool.other_images(captions, rng) for _ in range(2000)])
    assert np.array_equal(pool.folds[drawn], np.broadcast_to(pool.caption_folds, drawn.shape))
    for caption in (0, 31, 68):
        peers = np.flatnonzero(pool.folds == pool.caption_folds[caption])
        counts = np.bincount(drawn[:, caption], minlength=23)
        assert counts[pool.owners[caption]] == 0
        expected = 2000 / (len(peers) - 1)
        rest = counts[peers[peers != pool.owners[caption]]]
        assert (np.abs(rest - expected) < 5 * np.sqrt(expected)).all()
    assert sorted(np.bincount(pool.folds)) == [4, 4, 5, 5, 5]


def test_no_pair_is_judged_by_a_map_that_learnt_it():
    pool, _ = _pool()
    fold = pool.folds[7]
    inside, outside = (np.flatnonzero((pool.caption_folds == fold) == same) for same in (True, False))
    texts = pool.texts.copy()
    texts[pool.owners == 7] = -texts[pool.owners == 7]
    changed = replace(pool, texts=texts)
    before, after = (evidence.predictors(one)[0] for one in (pool, changed))
    same = inside[pool.owners[inside] != 7]
    # The map of the fold comes from sums less a part, hence the last bits.
    assert np.abs(before(same) - after(same)).max() < 1e-5
    assert np.abs(before(outside) - after(outside)).max() > 1e-3
    assert np.allclose(before(np.flatnonzero(pool.owners == 7)), -after(np.flatnonzero(pool.owners == 7)), atol=1e-5)


def test_linear_maps_are_ridge_regressions_on_the_other_folds():
    pool, _ = _pool(60, 2)
    pool = replace(pool, trust=np.random.default_rng(1).random(120).astype("f4"))
    rows = np.arange(0, 120, 7)
    predicted = evidence.predictors(pool)[0](rows)
    for row, vector in zip(rows, predicted, strict=True):
        rest = np.flatnonzero(pool.caption_folds != pool.caption_folds[row])
        square = sum(pool.trust[one] * np.outer(pool.texts[one], pool.texts[one]) for one in rest)
        crossed = sum(pool.trust[one] * np.outer(pool.texts[one], pool.images[pool.owners[one]]) for one in rest)
        ridge = 2.0 * np.trace(square) / len(square)
        expected = pool.texts[row] @ np.linalg.solve(square + ridge * np.eye(len(square)), crossed)
        assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-4)


def _standard(values: np.ndarray, value: float) -> float:
    return (value - values.mean()) / values.std()


def test_siblings_are_the_other_captions_and_never_the_caption_itself():
    pool, _ = _pool(30, 3)
    pool = PairPool.create(pool.images, pool.texts[:-2], pool.owners[:-2])  # the last image has one caption
    compared = evidence.siblings(pool)
    captions = np.array([0, 4, len(pool.owners) - 1])
    own, other = (compared(captions, images) for images in (pool.owners[captions], np.array([5, 6, 7])))
    sums = np.stack([pool.texts[pool.owners == image].sum(axis=0) for image in range(30)])
    whole = pools.unit(sums)
    for place, caption in enumerate(captions[:2]):
        witnesses = pools.unit(sums[[pool.owners[caption]]] - pool.texts[[caption]])[0]
        value = float(pool.texts[caption] @ witnesses)
        assert own[place, 0] == pytest.approx(_standard(whole @ pool.texts[caption], value), abs=1e-4)
        assert own[place, 1] == pytest.approx(_standard(pool.texts @ witnesses, value), abs=1e-4)
    assert own[2].tolist() == [0, 0]
    assert np.abs(other).min() > 0
    assert evidence.siblings(_pool(20, 1)[0]) is None


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_share_is_found_within_four_points_and_probabilities_have_it_as_their_mean(share):
    rng = np.random.default_rng(0)
    wrong = rng.random(20_000) < share
    values = rng.normal(np.where(wrong, 2.0, -2.0))
    found = estimate(values, rng.normal(2.0, size=20_000), 20_000)
    low, high = found.interval
    assert found.share == pytest.approx(share, abs=0.04)
    assert low < wrong.mean() < high
    assert high - low < 0.08
    probability = found.probability(values)
    assert probability.mean() == pytest.approx(found.share, abs=0.01)
    order = np.argsort(-values)
    assert (np.diff(probability[order]) <= 0).all()
    assert probability.min() >= 0
    assert probability.max() <= 1
    # Calibrated: of the pairs that are held for probable, that many are mismatched.
    first = order[: round(20_000 * share)]
    assert wrong[first].mean() == pytest.approx(probability[first].mean(), abs=0.05)
    low, high = found.number(values[first])
    assert low * 0.97 <= wrong[first].sum() <= high * 1.03


@pytest.mark.parametrize(("images", "each", "noise"), [(100, 3, 3.0), (150, 1, 1.0)])
def test_intervals_hold_the_number_of_few_mismatches_among_few_pairs(images, each, noise):
    held = 0
    for seed in range(12):
        pool, wrong = _pool(images, each, share=0.05, seed=seed, noise=noise)
        low, high = measure(pool).estimate.interval
        held += round(low * len(wrong)) <= wrong.sum() <= round(high * len(wrong))
    assert held >= 11


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_mismatches_are_found_with_their_share_and_the_same_seed_gives_the_same_bytes(share, together):
    pool, wrong = _pool(share=share, together=together)
    doubts = measure(pool)
    assert auc(doubts.odds, wrong) > 0.9
    assert doubts.estimate.share == pytest.approx(wrong.mean(), abs=0.07)
    assert doubts.probability.mean() == pytest.approx(doubts.estimate.share, abs=0.02)
    again = measure(_pool(share=share, together=together)[0])
    assert again.odds.tobytes() == doubts.odds.tobytes()
    assert again.columns.equals(doubts.columns)


def test_memory_is_that_of_blocks_and_never_of_all_pairs_with_each_other(monkeypatch):
    monkeypatch.setattr(pools, "BLOCK", 256)
    monkeypatch.setattr(evidence, "_SIMULATED", 2000)
    pool, _ = _pool(6000, 1, share=0.3, joint=True)
    tracemalloc.start()
    measure(pool)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(pool.owners) ** 2 * 0.6  # bytes; a float32 for each of all products would be 4


def test_similarity_is_asked_in_a_joint_space_alone():
    used = {}
    for joint in (False, True):
        pool, wrong = _pool(share=0.3, joint=joint)
        doubts = measure(pool)
        used[joint] = {name.rpartition("_")[0] for name in doubts.columns}
        assert auc(doubts.odds, wrong) > 0.9
    assert used[False] == {"linear", "siblings"}
    assert used[True] == {"linear", "siblings", "similarity"}


def test_four_images_are_enough_and_a_pool_of_equal_vectors_is_no_error():
    pool, _ = _pool(pools.FEWEST_IMAGES, 2)
    rng = np.random.default_rng(0)
    assert all((pool.other_images(np.arange(8), rng) != pool.owners).all() for _ in range(50))
    assert np.isfinite(measure(pool).probability).all()
    equal = PairPool.create(np.ones((20, 4), "f4") / 2, np.ones((40, 4), "f4") / 2, np.repeat(np.arange(20), 2))
    doubts = measure(equal)
    assert np.isfinite(doubts.odds).all()
    assert ((doubts.probability >= 0) & (doubts.probability <= 1)).all()
    low, high = doubts.estimate.interval
    assert high - low > 0.5
