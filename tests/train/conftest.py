"""Projects to train in: one ready for it, and one of painted pictures that is extracted once."""

import shutil

import pytest

from tests.toy_project import load_params
from tests.train.painted import extracted, loaded, painted
from tests.train.some import ready


@pytest.fixture(scope="module")
def extraction(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("finetuning")
        patch.chdir(root)
        painted()
        extracted(loaded({}))
    return root


@pytest.fixture
def painted_project(extraction, tmp_path, monkeypatch):
    """A copy of its own for every test; whatever is extracted is there."""
    shutil.copytree(extraction, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working directory, ready to train on clean pairs."""
    monkeypatch.chdir(tmp_path)
    ready(load_params(tmp_path))
    return tmp_path
