import shutil

import pytest

from tests.command_line import caller
from tests.faults import kill


@pytest.fixture
def call(monkeypatch, capsys):
    """The command line in this process: (exit status, stdout, stderr)."""
    return caller(monkeypatch, capsys)


@pytest.fixture(scope="session")
def _staged_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("staged")
    kill.make(root)
    return root


@pytest.fixture
def staged(_staged_once, tmp_path, monkeypatch):
    """A copy of a project of forty pictures in which every stage has run; it is the working directory."""
    root = tmp_path / "staged"
    shutil.copytree(_staged_once, root)
    monkeypatch.chdir(root)
    return root
