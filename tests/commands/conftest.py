import contextlib
from pathlib import Path

import pytest

from tests.command_line import caller


@pytest.fixture(scope="session")
def searched(tmp_path_factory) -> Path:
    """A project with trained runs and their pictures, to be copied; its params.yaml is for the copies to write."""
    from tests.search import project  # PyTorch, which most commands need none of

    root = tmp_path_factory.mktemp("searched")
    with contextlib.chdir(root):
        project.write(root, ["sum", "given", "scan"])
    return root


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder, no project around it; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys)
