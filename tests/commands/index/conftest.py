"""The command line beside a folder of pictures."""

import shutil

import pytest

from tests.command_line import caller
from tests.commands.index.photos import NAMES, photos
from tests.tools.search import project as artefacts


@pytest.fixture
def call(searched, tmp_path, monkeypatch, capsys):
    """The command line in a copy of a small project with trained runs, a folder of pictures beside it."""
    root = tmp_path / "project"
    shutil.copytree(searched, root)
    artefacts.params(root, runs={name: artefacts.RUNS[name] for name in ("sum", "scan", "given")}, ensembles={})
    photos(tmp_path / "My Photos", NAMES)
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "100")
    return caller(monkeypatch, capsys)
