import torch

from pipeline.project.registry import TEXT_ENCODERS
from pipeline.train.encoders.text.identity import Params
from pipeline.train.encoders.text.identity.encoder import build
from tests.train.encoders import identity


def test_vectors_as_they_are_at_unit_length():
    identity.check(lambda width, size: build(Params(), width, size, torch.Generator()))
    assert TEXT_ENCODERS.traits("identity").reads == "vectors"
