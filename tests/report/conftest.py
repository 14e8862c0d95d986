"""One project and one page for all tests that only look; tests that change something work on a copy."""

import contextlib
import shutil
from pathlib import Path

import pytest

from tests.report import project as base
from vse_pipe.report.stage import report

HOSTILE = '<script>alert("1")</script> & <img src=x onerror=alert(2)>'


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A project folder with all artefacts and the report; every caption of image 3 tries to break out of the page."""
    root = tmp_path_factory.mktemp("project")
    base.write(root, dict.fromkeys(base.caption_ids(3), HOSTILE))
    with contextlib.chdir(root):
        report(base.params(examples=60, sweeps=base.SWEEPS))
    return root


@pytest.fixture(scope="session")
def page(finished) -> str:
    return (finished / "reports/index.html").read_text(encoding="utf-8")


@pytest.fixture
def project(finished, tmp_path, monkeypatch) -> Path:
    """A copy without the report, and the current folder."""
    root = tmp_path / "project"
    shutil.copytree(finished, root, ignore=shutil.ignore_patterns("reports"))
    monkeypatch.chdir(root)
    return root
