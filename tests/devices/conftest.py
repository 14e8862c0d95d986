"""The device that results are compared on: a GPU where there is one, else the pretended one.

Not both, because torch's engine takes one kind of accelerator in a process.
"""

from collections.abc import Iterator

import pytest
import torch

from vse_pipe.core import devices

GPU = torch.cuda.is_available()
if not GPU:
    from tests.devices import (
        pretend,  # registers the device, which must be before the first backward pass of the process
    )


@pytest.fixture(params=["cuda" if GPU else "pretend"])
def device(monkeypatch) -> Iterator[torch.device]:
    if GPU:
        yield devices.resolve_device("cuda")
        return
    yield from _pretended(monkeypatch)


def _pretended(monkeypatch) -> Iterator[torch.device]:
    monkeypatch.setattr(devices, "KINDS", [*devices.KINDS, pretend.NAME])
    with pretend.used() as device, pretend.counted() as count:
        yield device
    assert count.operations, "nothing ran on the device"
