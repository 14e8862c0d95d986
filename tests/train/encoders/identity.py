"""What holds for both sides that are their inputs."""

import pytest
import torch

from tests.naive.training import unit
from vse_pipe.core.errors import InputError


def check(build) -> None:
    """build: (width, embed_size) to an encoder."""
    encoder = build(3, 3)
    vectors = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0]])
    found = encoder(vectors)
    torch.testing.assert_close(found[[0, 2]], torch.tensor([unit(row) for row in vectors[[0, 2]].tolist()]))
    assert found[1].tolist() == [0.0, 0.0, 0.0]
    assert encoder.state_dict() == {}
    with pytest.raises(
        InputError, match=r"gives the 3 numbers it is given, the run's vectors have 4: .*train.embed_size"
    ):
        build(3, 4)
    with pytest.raises(InputError, match="was built for vectors of 3 numbers"):
        encoder(torch.zeros(2, 4))
