import pytest

from tests.evaluate.embedded import sides, write


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working directory, with the embeddings of run ``sum``."""
    monkeypatch.chdir(tmp_path)
    write(*sides({"train": 6, "val": 20, "test": 24}))
    return tmp_path
