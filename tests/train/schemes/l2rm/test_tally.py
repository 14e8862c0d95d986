import numpy as np
import pytest

from pipeline.artifacts import rematching
from pipeline.train.schemes.l2rm.partition import Partition
from pipeline.train.schemes.l2rm.tally import Tally

LOSSES = np.concatenate([np.linspace(0.0, 0.3, 30), np.linspace(0.6, 1.0, 20)])
TRUTH = np.arange(50) >= 25


def _tally(truth=None) -> Tally:
    return Tally(Partition.of(LOSSES, "lower_mean", 0.5), truth)


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
    tally.moved(0.1)
    tally.moved(0.12)
    assert tally.record()["moved"] == pytest.approx(0.11)


def test_a_mixture_that_split_nothing_has_no_numbers():
    tally = Tally(Partition.of(np.full(50, 0.2), "lower_mean", 0.5), None)
    record = tally.record()
    assert record["mixture"]["alpha"] is None
    assert record["mixture"]["doubts"] == ["all losses are equal"]
    assert record["matched"] == 50
