"""Kills, a clock that jumps, and numbers of processes that come again leave the same bytes; damaged files are refused or read."""

import itertools
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.faults import kill, warm
from tests.rules.sources import ROOT

pytestmark = pytest.mark.acceptance


def test_killed_anywhere_every_stage_ends_with_the_same_bytes(tmp_path, capsys):
    assert kill.rounds(tmp_path, 2 * len(kill._OUT), seed=3) == 0
    assert capsys.readouterr().out.count("identical") == 2 * len(kill._OUT)


def jumping(seconds: float) -> None:
    """Every look at the clock finds it ``seconds`` further, or as far back."""
    real, there = time.time, itertools.cycle((0, seconds, -seconds))
    time.time = lambda: real() + next(there)


@pytest.mark.parametrize("stage", list(kill._OUT))
def test_a_clock_that_jumps_changes_no_byte(staged, stage):
    before = kill.files(staged)
    for place, path in enumerate(sorted(Path("data").rglob("*"))):
        os.utime(path, (1, 1) if place % 2 else (4e9, 4e9))
    warm.run(staged, stage, first=partial(jumping, 4e8))
    shutil.rmtree(kill._OUT[stage])
    warm.run(staged, stage, first=partial(jumping, 4e8))
    assert kill.files(staged) == before


def test_the_number_of_a_dead_writer_may_be_that_of_another_process(staged):
    """This one, which lives: who holds the lock counts."""
    before = kill.files(staged)
    for lock in Path("data").rglob("*.lock"):
        lock.write_text(f"{os.getpid()} on {os.uname().nodename}\n")
    left = Path("data/train/sum/last/.vse-pipe.killed.tmp")
    left.mkdir()
    (left / "state.safetensors").write_bytes(b"half")
    warm.run(staged, "-S", "train.epochs=7", "train")
    assert not left.exists()
    shutil.rmtree("data/train/sum")
    warm.run(staged, "train")
    assert kill.files(staged) == before


def test_damaged_files_of_every_format_are_refused_or_read(tmp_path):
    command = [sys.executable, "-m", "tests.faults.fuzz", "--rounds", "60", "--seed", "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].endswith(" 0 wrong")
