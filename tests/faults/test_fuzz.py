import os
import subprocess
import sys

import pytest

from tests.rules.sources import ROOT


@pytest.mark.acceptance
def test_damaged_files_of_every_format_are_refused_or_read(tmp_path):
    command = [sys.executable, "-m", "tests.faults.fuzz", "--rounds", "60", "--seed", "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].endswith(" 0 wrong")
