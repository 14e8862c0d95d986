import numpy as np
import pyarrow as pa
import pytest

from pipeline.artifacts import regions as artefact
from pipeline.artifacts.features import Features
from pipeline.core.errors import InputError
from pipeline.train.engine.regions import TrainRegions

# Six regions of three pictures; the last three are proposals, one in a picture that no pair shows.
IDS = np.array([30, 10, 20, 60, 50, 40])
COLUMNS = {
    "image_id": IDS,
    "source_id": [7, 8, 9, 9, 8, 7],
    **{name: np.arange(6.0) + shift for name, shift in zip(("x1", "y1", "x2", "y2"), (0, 0, 5, 5), strict=True)},
    "proposed": [False, False, False, True, True, True],
    "score": np.zeros(6),
    "split": ["train"] * 6,
}
OWNERS = np.array([10, 30, 10])


def _features(failed=()) -> Features:
    kept = np.array([one for one in sorted(IDS) if one not in failed])
    return Features(np.zeros((6, 2), np.float32), kept, kept // 10 - 1, {}, failed=np.array(failed, np.int64))


def _table(**changes) -> pa.Table:
    return pa.table({**COLUMNS, **changes}).cast(artefact.SCHEMA)


def test_boxes_of_pairs_and_the_proposals_of_their_pictures():
    found = TrainRegions.of(_table(), _features(), OWNERS, "r")
    assert found.pictures.tolist() == [8, 7, 8]
    assert found.boxes.tolist() == [[1, 1, 6, 6], [0, 0, 5, 5], [1, 1, 6, 6]]
    assert (found.proposed_in.tolist(), found.rows.tolist()) == ([7, 8], [3, 4])
    assert found.proposals.tolist() == [[5, 5, 10, 10], [4, 4, 9, 9]]


def test_proposals_that_could_not_be_read_are_left_out():
    assert TrainRegions.of(_table(), _features([40]), OWNERS, "r").rows.tolist() == [4]


def test_without_proposals_there_is_nothing_to_mine():
    with pytest.raises(InputError, match="train r: no picture of its training pairs has a proposal; add train to the"):
        TrainRegions.of(_table(proposed=[False] * 6), _features(), OWNERS, "r")
