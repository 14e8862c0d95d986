import torch

from tests.train.encoders import identity
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.encoders.text.identity import build
from vse_pipe.train.encoders.text.options import IdentityOptions as Params


def test_vectors_as_they_are_at_unit_length():
    identity.check(lambda width, size: build(Params(), width, size, torch.Generator()))
    assert TEXT_ENCODERS.traits("identity").reads == "vectors"
