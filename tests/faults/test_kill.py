"""Killed stages end with the same bytes; damaged files of every format are refused or read."""

import os
import subprocess
import sys

import pytest

from tests.faults import kill
from tests.rules.sources import ROOT

pytestmark = pytest.mark.acceptance


def test_killed_anywhere_every_stage_ends_with_the_same_bytes(tmp_path, capsys):
    assert kill.rounds(tmp_path, 2 * len(kill._OUT), seed=3) == 0
    assert capsys.readouterr().out.count("identical") == 2 * len(kill._OUT)


def test_damaged_files_of_every_format_are_refused_or_read(tmp_path):
    command = [sys.executable, "-m", "tests.faults.fuzz", "--rounds", "60", "--seed", "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "0 wrong"
