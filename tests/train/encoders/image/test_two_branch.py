import pytest
import torch

from tests.train.encoders import two_branch as shared
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.options import TwoBranchOptions as Params
from vse_pipe.train.encoders.image.two_branch import build


def _make(**options):
    return build(Params(**options), (shared.IN,), shared.OUT, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("hidden", shared.HIDDEN, ids=str)
@pytest.mark.parametrize("batch_norm", shared.BATCH_NORMS)
def test_equals_the_loops(batch_norm, hidden):
    shared.check_loops(_make, batch_norm, hidden)


def test_running_statistics():
    shared.check_running_statistics(_make)


def test_the_linear_rows_of_the_paper():
    shared.check_linear(_make)


def test_names_of_the_weights():
    shared.check_names(_make)


def test_dropout():
    shared.check_dropout(_make)


def test_entries_left_out():
    shared.check_entries_left_out(_make)


def test_initial_weights():
    shared.check_weights(lambda rng: build(Params(), (shared.IN,), shared.OUT, rng))


def test_unit_length_gradients_and_refusals():
    shared.check_rest(_make)


def test_a_lone_row_in_training():
    shared.check_lone_row(_make)


def test_regions_are_refused():
    with pytest.raises(InputError, match="'two_branch' needs one vector per image"):
        build(Params(), (36, 2048), 4, torch.Generator())
