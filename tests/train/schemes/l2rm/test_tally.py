from dataclasses import replace

import numpy as np
import pytest

from tests.train.some import some_pairs
from vse_pipe.artifacts import rematching
from vse_pipe.train.schemes.l2rm.partition import Partition
from vse_pipe.train.schemes.l2rm.tally import Tally

LOSSES = np.concatenate([np.linspace(0.0, 0.3, 30), np.linspace(0.6, 1.0, 20)])
TRUTH = np.arange(50) >= 25


def _tally(truth=None) -> Tally:
    pairs = replace(some_pairs(50, each=2), mismatched=truth)
    return Tally(Partition.of(LOSSES, "lower_mean", 0.5), pairs)


def _plan(size: int, moved: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ``moved`` give most of their mass, the others hardly any; the rows scaled to sum 1."""
    plan = np.random.default_rng(seed).random((size, size)) ** 4
    plan *= np.where(np.isin(np.arange(size), moved), 0.9, 0.1)[:, None] / size / plan.sum(axis=1, keepdims=True)
    return plan.astype(np.float32), (plan / plan.sum(axis=1, keepdims=True)).astype(np.float32)


def test_a_record_has_every_key_the_artefact_names(tmp_path):
    record = {"epoch": 3, **_tally(TRUTH).record()}
    assert set(record) == rematching.KEYS
    rematching.write(tmp_path, [record])
    assert rematching.read(tmp_path) == [record]


def test_the_split_is_measured_against_the_truth():
    record = _tally(TRUTH).record()
    assert record["by"] == "truth"
    assert record["matched"] == 30
    assert record["truth"]["precision"] == 1.0
    assert record["truth"]["recall"] == 20 / 25
    assert record["truth"]["mismatched"] == 0.5
    assert record["truth"]["auc"] == pytest.approx(1.0)
    assert sum(record["losses"]["mismatched"]) == 25


def test_without_truth_the_split_itself_decides():
    record = _tally().record()
    assert record["truth"] is None
    assert record["by"] == "split"
    assert [sum(record["losses"][kind]) for kind in ("matched", "mismatched")] == [30, 20]


def test_costs_are_counted_by_pair_and_the_last_bin_is_open():
    tally = _tally(TRUTH)
    tally.cost(np.array([0, 1, 40]), np.array([0.01, 0.06, 0.06]))
    tally.cost(np.array([41]), np.array([17.0]))
    cost = tally.record()["cost"]
    assert cost["matched"][:3] == [1, 1, 0]
    assert cost["mismatched"][1] == 1
    assert cost["mismatched"][-1] == 1
    assert len(cost["edges"]) == len(cost["matched"]) + 1


def test_moved_masses_are_averaged():
    tally = _tally()
    assert tally.record()["moved"] is None
    for moved in ([0, 1], [2, 3, 4]):
        tally.moved(np.arange(20, 30), *_plan(10, moved))
    assert tally.record()["moved"] == pytest.approx(((2 * 0.9 + 8 * 0.1) + (3 * 0.9 + 7 * 0.1)) / 10 / 2)


def test_the_mass_that_stays_with_its_own_caption_is_that_of_the_diagonals():
    tally, plans = _tally(), np.random.default_rng(0).random((2, 10, 10))
    assert tally.record()["kept"] is None
    for plan in plans:
        tally.moved(np.arange(20, 30), plan, plan)
    assert tally.record()["kept"] == pytest.approx(sum(plan[one, one] for plan in plans for one in range(10)) / 2)


def test_alignments_are_averaged_by_rank_apart_for_transported_images():
    tally = _tally()
    assert tally.record()["alignment"] is None
    expected: dict[str, list] = {"transported": [], "untransported": []}
    for seed, moved in enumerate([[0, 3], [], [7]]):
        plan, refined = _plan(10, moved, seed)
        tally.moved(np.arange(30, 40), plan, refined)
        for row in range(10):
            kind = "transported" if row in moved else "untransported"
            expected[kind].append(sorted(refined[row].tolist(), reverse=True))
    found = tally.record()["alignment"]
    for kind, rows in expected.items():
        assert found[kind]["rows"] == len(rows)
        assert found[kind]["mean"] == pytest.approx(
            [sum(column) / len(rows) for column in zip(*rows, strict=True)], abs=1e-6
        )


def test_rematched_pairs_are_the_plainest_of_the_last_plans_one_of_each_image():
    tally = _tally()
    assert tally.record()["rematched"] == []
    pairs = np.array([49, 30, 31, 40, 42])
    refined = np.full((5, 5), 0.05, np.float32)
    for row, (column, weight) in enumerate([(1, 0.3), (0, 0.8), (3, 0.7), (4, 0.9), (2, 0.6)]):
        refined[row, column] = weight
    plan = refined * np.array([0.25, 0.25, 0.25, 0.01, 0.25], np.float32)[:, None]
    tally.moved(pairs, np.ones((5, 5), np.float32), refined[::-1])
    tally.moved(pairs, plan, refined)
    found = tally.record()["rematched"]
    owners, captions = tally.pairs.owners, tally.pairs.texts.caption_ids
    # 31 shows the image of 30, whose weight is larger.
    assert [(row["image_id"], row["caption_id"], row["rematch_caption_id"], row["weight"]) for row in found] == [
        (owners[own], captions[own], captions[partner], pytest.approx(weight))
        for own, partner, weight in [(30, 49, 0.8), (42, 31, 0.6), (49, 30, 0.3)]
    ]


def test_a_mixture_that_split_nothing_has_no_numbers():
    tally = Tally(Partition.of(np.full(50, 0.2), "lower_mean", 0.5), some_pairs(50))
    record = tally.record()
    assert record["mixture"]["alpha"] is None
    assert record["mixture"]["doubts"] == ["all losses are equal"]
    assert record["matched"] == 50
