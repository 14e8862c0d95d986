"""What the stages compute can be computed elsewhere, part by part and in any order: every byte is the same."""

import subprocess
import sys

import pytest

from tests.rules.sources import ROOT

pytestmark = pytest.mark.acceptance


def test_all_that_is_written_is_the_same() -> None:
    command = [sys.executable, "-m", "tests.project.engines.projects", "elsewhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
