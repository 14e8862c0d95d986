import pytest
import torch

from tests.train.encoders import identity
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.identity import build
from vse_pipe.train.encoders.image.options import IdentityOptions as Params


def test_vectors_as_they_are_at_unit_length():
    identity.check(lambda width, size: build(Params(), (width,), size, torch.Generator()))


def test_regions_are_refused():
    with pytest.raises(InputError, match="'identity' needs one vector per image"):
        build(Params(), (36, 2048), 2048, torch.Generator())
