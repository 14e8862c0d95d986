"""Shared by the tests of extract."""

import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.extract import project
from vse_pipe.extract.compute import Forward


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small only wait for each other's threads, the longer the busier the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def tiny(folder: Path) -> Path:
    """The same with nine prepared images."""
    project.prepared(Path("raw"), project.pictures(Path("raw"), 9))
    return folder


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that networks are given."""
    seen, run = [], Forward.begin

    def noted(self: Forward, batch):
        seen.append(len(batch[0] if isinstance(batch, tuple) else batch))
        return run(self, batch)

    monkeypatch.setattr(Forward, "begin", noted)
    return seen


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(url: str):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("torch.hub.urlopen", unreachable)
