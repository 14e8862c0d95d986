"""What a run knows of its mismatched pairs."""

import numpy as np
import pyarrow as pa
import pytest

from tests.toy_project import load_params, write_prepared
from vse_pipe.artifacts import captions, features, pairs, texts
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.train.data import TrainTable


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A function of changes to the column ``mismatched`` of noise ``half``: those of the training pairs."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("table")
        patch.chdir(root)
        write_prepared()
        params = load_params(root)
        inject(params, "half")
        extract_texts(params, "words")
        told = captions.read(paths.prepared("toy"))
        shown = pairs.read(paths.injected("toy", "half"))
        source = features.read(paths.extracted("toy", "plain"))
        words = texts.read(paths.extracted("toy", "words"))

    def mismatched(change):
        column = shown["mismatched"].to_pylist()
        train = [place for place, split in enumerate(shown["split"].to_pylist()) if split == "train"]
        at = shown.column_names.index("mismatched")
        table = shown.set_column(at, "mismatched", pa.array(change(column, train), pa.bool_()))
        return TrainTable.join(told, table, source, words).train_pairs.mismatched

    return mismatched


def test_the_injected_truth_is_that_of_the_training_pairs(joined):
    wanted = []
    found = joined(lambda column, train: wanted.extend(column[place] for place in train) or column)
    assert found.dtype == bool
    assert found.tolist() == wanted
    assert any(wanted)


@pytest.mark.parametrize(
    "change",
    [
        lambda column, train: [None if place in train else value for place, value in enumerate(column)],
        lambda column, train: [None if place == train[0] else value for place, value in enumerate(column)],
        lambda column, train: np.zeros(len(column), bool).tolist(),
    ],
    ids=["all unknown", "one unknown", "none mismatched"],
)
def test_without_the_whole_truth_and_without_mismatches_there_is_nothing_to_measure(joined, change):
    assert joined(change) is None
