import pytest

from tests.evaluate.embedded import sides, write
from vse_pipe.core import console


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working directory, with the embeddings of run ``sum``."""
    monkeypatch.chdir(tmp_path)
    write(*sides())
    return tmp_path


@pytest.fixture
def warned(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(console, "warn", found.append)
    return found
