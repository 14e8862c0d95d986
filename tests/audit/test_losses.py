from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.audit import losses as member
from vse_pipe.audit.losses import batches, measured, partners
from vse_pipe.train import mixture as train_mixture
from vse_pipe.train.matches import Incidence
from vse_pipe.train.mixture import auc

# Few values, so that ties are the rule.
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@given(PAIRS)
def test_the_area_under_the_curve_is_that_of_loops(pairs):
    values, mismatched = np.array([value for value, _ in pairs], float), np.array([wrong for _, wrong in pairs])
    has_both = mismatched.any() and not mismatched.all()
    expected = pytest.approx(naive.auc(values.tolist(), mismatched.tolist())) if has_both else None
    assert auc(values, mismatched) == expected


def test_histogram_counts_every_pair_once_by_its_truth():
    rng = np.random.default_rng(0)
    mismatched = rng.random(2000) < 0.4
    losses = np.where(mismatched, rng.beta(8, 3, 2000), rng.beta(2, 9, 2000)) * 3 + 1
    mixture = train_mixture.fit_beta(losses)
    table = member.loss_histogram(losses, mixture, mismatched)
    assert len(table) == member.BINS
    assert (table.matched + table.mismatched == table.pairs).all()
    assert (table.matched.sum(), table.mismatched.sum()) == ((~mismatched).sum(), mismatched.sum())
    first = table.iloc[0]
    assert first.pairs == ((losses >= first.low) & (losses < first.high)).sum()
    assert (table.low.iloc[0], table.high.iloc[-1]) == (losses.min(), losses.max())
    # The mixture's densities are pairs per bin: they add up to all pairs and follow the truth.
    assert table.expected_matched.sum() + table.expected_mismatched.sum() == pytest.approx(2000, rel=0.02)
    assert table.expected_matched.sum() == pytest.approx((~mismatched).sum(), rel=0.1)


def test_histogram_without_truth_or_spread_has_empty_cells():
    table = member.loss_histogram(np.ones(20), train_mixture.fit_beta(np.ones(20)), None)
    assert table.pairs.tolist() == [20]
    assert table[["matched", "mismatched", "expected_matched", "expected_mismatched"]].isna().all(axis=None)


def _dot(images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    return images @ texts.T


def _sides(owners: list[int], seed: int, ties: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A vector per image 0..max and a vector per pair; whole numbers make equal scores."""
    rng = np.random.default_rng(seed)
    shape = (max(owners) + 1, 3), (len(owners), 3)
    draw = [rng.integers(-1, 2, one) if ties else rng.standard_normal(one) for one in shape]
    return tuple(torch.from_numpy(one.astype(np.float32)) for one in draw)


def _matrix(images, texts, owners) -> list[list[float]]:
    return _dot(images[torch.tensor(owners)], texts).tolist()


def _in_one_batch(rows: torch.Tensor, texts: torch.Tensor, owners: list[int], *matches) -> pd.DataFrame:
    work = [np.arange(len(owners))]
    return measured(lambda pairs: (rows[pairs], texts[pairs]), _dot, np.array(owners), work, *matches)


OWNERS = st.lists(st.integers(0, 4), min_size=1, max_size=20)


@given(OWNERS, st.integers(0, 50), st.booleans(), st.integers(1, 60))
def test_partners_are_the_best_of_all_whatever_the_block(owners, seed, ties, cells):
    # Images that no pair shows do not exist for the audit.
    owners = np.unique(owners, return_inverse=True)[1].tolist()
    images, texts = _sides(owners, seed, ties)
    with patch.object(member, "_CELLS", cells):
        found = pd.DataFrame(partners(images, texts, np.array(owners), _dot))
    expected = naive.partners(_matrix(images, texts, owners), owners)
    for i, (caption, caption_score, image, image_score) in enumerate(expected):
        if caption is None:
            assert (found.caption[i], found.image[i]) == (-1, -1)
            continue
        assert found.caption_score[i] == pytest.approx(caption_score, abs=1e-5)
        assert found.image_score[i] == pytest.approx(image_score, abs=1e-5)
        if not ties:
            assert found.caption[i] == caption
            assert owners[found.image[i]] == image


@given(OWNERS, st.lists(st.integers(0, 6), min_size=20, max_size=20), st.integers(0, 50), st.integers(1, 60))
def test_what_belongs_together_is_no_partner_and_no_negative(owners, said, seed, cells):
    owners = np.unique([*owners, 9], return_inverse=True)[1].tolist()
    said = [*said[: len(owners) - 1], 7]
    images, texts = _sides(owners, seed, ties=False)
    known = Incidence.from_pairs(np.array(owners), np.array(said), np.array([0]), np.array([7]))
    seen = {*zip(owners, said, strict=True), (0, 7)}
    matrix = _matrix(images, texts, owners)
    matches = known.by_image[:, known.texts].nonzero()
    with patch.object(member, "_CELLS", cells):
        of_all = pd.DataFrame(partners(images, texts, np.array(owners), _dot, matches))
    rows = images[torch.tensor(owners)]
    for found in (of_all, _in_one_batch(rows, texts, owners, known.matches)):
        for i, (owner, text) in enumerate(zip(owners, said, strict=True)):
            others = [j for j in range(len(owners)) if (owner, said[j]) not in seen]
            assert found.caption[i] == max(others, key=lambda j: matrix[i][j], default=-1)
            others = [j for j in range(len(owners)) if (owners[j], text) not in seen]
            best = max(others, key=lambda j: matrix[j][i], default=-1)
            assert (found.image[i] < 0) == (best < 0)
            assert best < 0 or owners[found.image[i]] == owners[best]


def test_of_equal_scores_the_first_wins():
    owners = np.array([0, 0, 1, 2, 2])
    with patch.object(member, "_CELLS", 5):
        found = pd.DataFrame(partners(torch.zeros(3, 2), torch.zeros(5, 2), owners, _dot))
    assert found.caption.tolist() == [2, 2, 0, 0, 0]
    assert owners[found.image].tolist() == [1, 1, 0, 0, 0]


@given(OWNERS, st.integers(0, 50))
def test_losses_and_partners_of_one_batch(owners, seed):
    owners = owners if len(owners) > 1 else [*owners, 0]
    images, texts = _sides(owners, seed, ties=False)
    rows = images[torch.tensor(owners)]
    found = _in_one_batch(rows, texts, owners)
    matrix = _matrix(images, texts, owners)
    np.testing.assert_allclose(found.loss, naive.pair_losses(matrix, owners, 0.2), atol=1e-5)
    np.testing.assert_allclose(found.score, [matrix[i][i] for i in range(len(owners))], atol=1e-6)
    for i, (caption, _, image, _) in enumerate(naive.partners(matrix, owners)):
        assert found.caption[i] == (-1 if caption is None else caption)
        place = found.image[i]
        assert (None if place < 0 else owners[place]) == image


@given(st.integers(2, 600), st.integers(3, 130))
def test_batches_hold_each_pair_once_and_never_one_alone(pairs, size):
    work = batches(pairs, size, np.random.default_rng(0))
    assert sorted(np.concatenate(work)) == list(range(pairs))
    assert 2 <= min(map(len, work)) <= max(map(len, work)) <= size
    assert max(map(len, work)) - min(map(len, work)) <= 1


def test_partners_are_named_by_their_ids_and_null_where_there_is_none():
    wrong = [False, False, True, True]
    truth = pa.table({"caption_id": [1, 2, 3, 4], "image_id": [10, 20, 30, 10], "mismatched": wrong})
    best = [1, -1, 0, 2], [0.5, -np.inf, 0.5, 0.5]
    columns = [0.0, 0.1, 0.9, 1.0], [0.9, 0.8, 0.1, 0.0], *best, *best
    table = pd.DataFrame(dict(zip(member.COLUMNS, columns, strict=True)))
    table = member.pairs_table(truth, table, np.array([0.0, 0.1, 0.8, 0.3]))
    assert table["rematch_caption_id"].to_pylist() == [2, None, 1, 3]
    assert table["rematch_image_id"].to_pylist() == [20, None, 10, 30]
    assert table["rematch_image_score"].to_pylist() == [0.5, None, 0.5, 0.5]
