"""Projects to train in, made once and copied: one ready for it, the same trained, and one of painted pictures, extracted."""

import shutil
from contextlib import chdir

import pytest

from tests.toy_project import load_params
from tests.train.painted import extracted, loaded, painted
from tests.train.some import ready
from vse_pipe.train.stage import train


@pytest.fixture(scope="module")
def extraction(tmp_path_factory):
    with chdir(root := tmp_path_factory.mktemp("finetuning")):
        painted()
        extracted(loaded({}))
    return root


@pytest.fixture
def painted_project(extraction, tmp_path, monkeypatch):
    """A copy of its own for every test; whatever is extracted is there."""
    monkeypatch.chdir(shutil.copytree(extraction, tmp_path / "project"))
    return tmp_path / "project"


@pytest.fixture(scope="session")
def _ready(tmp_path_factory):
    with chdir(root := tmp_path_factory.mktemp("ready")):
        ready(load_params(root))
    return root


@pytest.fixture(scope="session")
def _trained(_ready, tmp_path_factory):
    root = shutil.copytree(_ready, tmp_path_factory.mktemp("trained") / "project")
    with chdir(root):
        train(load_params(root), "sum", "cpu")
    return root


@pytest.fixture
def project(_ready, tmp_path, monkeypatch):
    """The working directory, ready to train on clean pairs."""
    monkeypatch.chdir(shutil.copytree(_ready, tmp_path / "project"))
    return tmp_path / "project"


@pytest.fixture
def trained_project(_trained, tmp_path, monkeypatch):
    """The same with the run ``sum`` trained."""
    monkeypatch.chdir(shutil.copytree(_trained, tmp_path / "project"))
    return tmp_path / "project"
