import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.artifacts import regions as artefact
from vse_pipe.artifacts.features import Features
from vse_pipe.core.errors import InputError
from vse_pipe.train.data import Incidence, TrainRegions

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
# Region 70 is of a mention for which no pair was drawn, in the picture of the third.
KNOWN = Incidence.of(np.array([10, 30, 10]), np.arange(3), np.array([70, 10]), np.array([0, 1]))
MENTIONS = pa.table(
    {"region_id": [70, 10], "image_id": [9, 8], "x1": [1.0, 0], "y1": [2.0, 0], "x2": [3.0, 9], "y2": [4.0, 9]}
)


def _features(failed=()) -> Features:
    kept = np.array([one for one in sorted(IDS) if one not in failed])
    return Features(np.zeros((6, 2), np.float32), kept, kept // 10 - 1, {}, failed=np.array(failed, np.int64))


def _table(**changes) -> pa.Table:
    return pa.table({**COLUMNS, **changes}).cast(artefact.SCHEMA)


def test_boxes_of_all_mentions_and_the_proposals_of_the_pictures_of_pairs():
    found = TrainRegions.of(_table(), MENTIONS, _features(), KNOWN, "r")
    assert KNOWN.ids.tolist() == [10, 30, 70]
    assert found.pictures.tolist() == [8, 7, 9]
    assert found.boxes.tolist() == [[1, 1, 6, 6], [0, 0, 5, 5], [1, 2, 3, 4]]
    assert (found.proposed_in.tolist(), found.rows.tolist()) == ([7, 8], [3, 4])
    assert found.proposals.tolist() == [[5, 5, 10, 10], [4, 4, 9, 9]]


def test_proposals_that_could_not_be_read_are_left_out():
    assert TrainRegions.of(_table(), MENTIONS, _features([40]), KNOWN, "r").rows.tolist() == [4]


def test_without_proposals_there_is_nothing_to_mine():
    with pytest.raises(InputError, match="train r: no picture of its training pairs has a proposal; add train to the"):
        TrainRegions.of(_table(proposed=[False] * 6), MENTIONS, _features(), KNOWN, "r")
