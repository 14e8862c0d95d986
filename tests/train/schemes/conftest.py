import shutil

import pytest


@pytest.fixture
def project(trained, tmp_path, monkeypatch):
    """A copy of the module's ``trained`` project as the working directory."""
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"
