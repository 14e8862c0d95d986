"""Shared by the tests of extract."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.extract import project


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
