import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.artifacts.audit import COSTS_COLUMNS
from vse_pipe.audit import measure
from vse_pipe.audit.measure import Measured, Partners
from vse_pipe.train import mixture as train_mixture


def test_a_row_per_epoch_and_bin():
    bins = {"edges": [0.0, 1.0, 2.0], "matched": [5, 1], "mismatched": [0, 4]}
    table = measure.costs_table([{"epoch": 6, "by": "truth", "cost": bins}, {"epoch": 7, "by": "split", "cost": bins}])
    assert list(table.columns) == list(COSTS_COLUMNS)
    assert table.to_numpy().tolist() == [
        [6, "truth", 0.0, 1.0, 5, 0],
        [6, "truth", 1.0, 2.0, 1, 4],
        [7, "split", 0.0, 1.0, 5, 0],
        [7, "split", 1.0, 2.0, 1, 4],
    ]


def test_nothing_recorded_is_an_empty_table():
    assert measure.costs_table([]).empty


def _audited(true=(10, 20, 10, 40), shown=(10, 20, 30, 10)):
    """Four pairs: the third and the fourth show a wrong image; partners by pair number."""
    truth = pa.table(
        {
            "caption_id": [1, 2, 3, 4],
            "image_id": list(shown),
            "true_image_id": pa.array(true, pa.int64()),
            "mismatched": pa.array(
                [None if a is None else a != b for a, b in zip(true, shown, strict=True)], pa.bool_()
            ),
        }
    )
    partners = Partners(
        np.array([1, -1, 0, 2]),
        np.array([0.5, -np.inf, 0.5, 0.5]),
        np.array([1, -1, 0, 2]),
        np.array([0.5, -np.inf, 0.5, 0.5]),
    )
    losses = np.array([0.0, 0.1, 0.9, 1.0])
    found = Measured(losses, np.array([0.9, 0.8, 0.1, 0.0]), partners)
    nothing = np.full(2, np.nan)
    mixture = train_mixture.BetaMixture(
        nothing, nothing, np.array([1.0, 0.0]), np.array([1.0, 0.9, 0.2, 0.7]), False, 0, ("few",)
    )
    return measure.pairs_table(truth, found, mixture), truth, mixture


def test_partners_are_named_by_their_ids_and_null_where_there_is_none():
    table, _, _ = _audited()
    assert table["rematch_caption_id"].to_pylist() == [2, None, 1, 3]
    assert table["rematch_image_id"].to_pylist() == [20, None, 10, 30]
    assert table["rematch_image_score"].to_pylist() == [0.5, None, 0.5, 0.5]
    assert table["probability"].to_pylist() == pytest.approx([0.0, 0.1, 0.8, 0.3])


def test_figures_against_the_truth():
    found = measure.audit_metrics(*_audited(), threshold=0.5)
    assert (found["flagged"], found["mismatched"], found["auc"]) == (1, 2, 1.0)
    assert (found["precision"], found["recall"]) == (1.0, 0.5)
    # Image 30 is best matched by caption 1, which is of image 10; image 10 by caption 3, which is of it.
    assert found["rematched_caption_right"] == 0.5
    # Caption 3 describes image 10 and is given it; caption 4 describes 40 and is given 30.
    assert found["rematched_image_right"] == 0.5
    assert found["mixture"] | {"doubts": []} == {
        "alpha": None,
        "beta": None,
        "mean": None,
        "weight": [1.0, 0.0],
        "converged": False,
        "iterations": 0,
        "doubts": [],
    }


def test_without_the_truth_there_are_no_such_figures():
    table, truth, mixture = _audited(true=(None,) * 4)
    found = measure.audit_metrics(table, truth, mixture, threshold=0.5)
    assert found["truth"] == "unknown"
    assert not {"auc", "precision", "mismatched", "rematched_image_right"} & set(found)


def test_nothing_mismatched_leaves_figures_undefined():
    found = measure.audit_metrics(*_audited(shown=(10, 20, 10, 40)), threshold=0.9)
    for name in ("auc", "average_precision", "precision", "recall", "rematched_caption_right"):
        assert found[name] is None, name


def test_the_first_by_loss_are_counted_and_a_threshold_that_misses_most_is_said():
    table, truth, mixture = _audited()
    found = measure.audit_metrics(table, truth, mixture, threshold=0.5)
    assert found["ranked"] == [{"first": 4, "estimated": pytest.approx(0.3), "precision": 0.5}]
    assert (found["expected"], measure.doubt(found)) == (1.2, "")
    missed = measure.doubt(measure.audit_metrics(table, truth, mixture, threshold=0.9))
    assert missed.startswith(
        "0 pairs are flagged and 2 are mismatched: the recall is 0.00; take the first pairs by loss"
    )
    assert measure.doubt({"truth": "known", "mismatched": 6000, "flagged": 4000, "recall": 0.12})
    assert not measure.doubt({"truth": "known", "mismatched": 0, "flagged": 4, "recall": None})
    unknown = measure.audit_metrics(*_audited(true=(10, None, 10, 40)), threshold=0.9)
    assert unknown["ranked"] == [{"first": 4, "estimated": pytest.approx(0.3), "precision": None}]
    assert measure.doubt(unknown).startswith("0 pairs are flagged and about 1 are mismatched: most of them stay below")


@pytest.mark.parametrize(("count", "sizes"), [(9, [9]), (10, [10]), (11, [10]), (1001, [10, 100, 1000])])
def test_the_first_are_those_of_the_highest_losses(count, sizes):
    rng = np.random.default_rng(count)
    losses = rng.permutation(np.arange(count) // 2 / count)
    mismatched, probability = rng.random(count) < losses, rng.random(count)
    order = sorted(range(count), key=lambda place: -losses[place])
    found = measure.ranked(losses, probability, mismatched)
    assert [one["first"] for one in found] == sizes
    for one in found:
        first = order[: one["first"]]
        assert one["precision"] == pytest.approx(sum(mismatched[place] for place in first) / len(first))
        assert one["estimated"] == pytest.approx(sum(probability[place] for place in first) / len(first))
