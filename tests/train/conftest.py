"""A project of painted pictures that is extracted once."""

import shutil

import pytest

from tests.train.painted import extracted, loaded, painted


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
