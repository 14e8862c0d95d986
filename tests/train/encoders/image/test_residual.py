import pytest
import torch

from tests.train.encoders import residual as shared
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.options import ResidualOptions as Params
from vse_pipe.train.encoders.image.residual import build


def _make(**options):
    return build(Params(**options), (shared.IN,), shared.OUT, torch.Generator().manual_seed(0))


def test_equals_the_loops():
    shared.check_loops(_make)


def test_dropout():
    shared.check_dropout(_make)


def test_entries_left_out():
    shared.check_entries_left_out(_make)


def test_weights_gradients_and_refusals():
    shared.check_rest(_make, lambda rng: build(Params(), (shared.IN,), shared.OUT, rng))


def test_regions_are_refused():
    with pytest.raises(InputError, match="'residual' needs one vector per image"):
        build(Params(), (36, 2048), 4, torch.Generator())
