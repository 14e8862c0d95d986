"""One project for all tests that only look; tests that change something work on a copy."""

import contextlib
import shutil
from pathlib import Path

import pytest

from tests.search import project as artefacts
from vse_pipe.search.engine import Engine


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("search")
    with contextlib.chdir(root):
        artefacts.write(root)
    return root


@pytest.fixture
def project(finished, tmp_path, monkeypatch) -> Path:
    """A copy, and the current folder."""
    root = tmp_path / "project"
    shutil.copytree(finished, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def opened(project):
    """An engine of a run on the CPU; further words change sections of params.yaml."""

    def engine(run="sum", criterion="nns", split="test", **changes) -> Engine:
        return Engine.open(artefacts.params(project, **changes), run, criterion, split, "cpu")

    return engine
