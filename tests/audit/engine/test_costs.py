from vse_pipe.artifacts.audit import COSTS_COLUMNS
from vse_pipe.audit import outcome


def test_a_row_per_epoch_and_bin():
    bins = {"edges": [0.0, 1.0, 2.0], "matched": [5, 1], "mismatched": [0, 4]}
    table = outcome.table([{"epoch": 6, "by": "truth", "cost": bins}, {"epoch": 7, "by": "split", "cost": bins}])
    assert list(table.columns) == list(COSTS_COLUMNS)
    assert table.to_numpy().tolist() == [
        [6, "truth", 0.0, 1.0, 5, 0],
        [6, "truth", 1.0, 2.0, 1, 4],
        [7, "split", 0.0, 1.0, 5, 0],
        [7, "split", 1.0, 2.0, 1, 4],
    ]


def test_nothing_recorded_is_an_empty_table():
    assert outcome.table([]).empty
