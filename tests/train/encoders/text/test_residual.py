import torch

from tests.train.encoders import residual as shared
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.encoders.text.options import ResidualOptions as Params
from vse_pipe.train.encoders.text.residual import build


def _make(**options):
    return build(Params(**options), shared.IN, shared.OUT, torch.Generator().manual_seed(0))


def test_equals_the_loops():
    shared.check_loops(_make)


def test_dropout():
    shared.check_dropout(_make)


def test_entries_left_out():
    shared.check_entries_left_out(_make)


def test_weights_gradients_and_refusals():
    shared.check_rest(_make, lambda rng: build(Params(), shared.IN, shared.OUT, rng))


def test_it_reads_vectors():
    assert TEXT_ENCODERS.traits("residual").reads == "vectors"
