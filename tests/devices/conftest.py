"""The devices that results are compared on: the pretend one everywhere, a GPU where there is one."""

from collections.abc import Iterator

import pytest
import torch

from tests.devices import pretend
from vse_pipe.core import devices


@pytest.fixture(params=["pretend", "cuda"])
def device(request, monkeypatch) -> Iterator[torch.device]:
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU here")
        yield torch.device("cuda")
        return
    monkeypatch.setattr(devices, "KINDS", [*devices.KINDS, pretend.NAME])
    with pretend.used() as device, pretend.counted() as count:
        yield device
    assert count.operations, "nothing ran on the device"
