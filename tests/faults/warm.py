"""Commands as processes of their own that need not import torch first: forked from a process that has.

    with folder: process = warm.started(folder, "train", "--run", "sum")

``process`` is one of multiprocessing's: ``pid``, ``kill``, ``exitcode``, negative after a signal.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Container
from multiprocessing import forkserver
from pathlib import Path

from tests.rules.sources import ROOT
from vse_pipe import cli

_LONGEST_S = 120.0
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["tests.faults.warmed", "tests.faults.graph"])
SAID = "said.txt"


def started(folder: Path, *arguments: object, first: Callable[[], None] | None = None) -> multiprocessing.Process:
    """``vse-pipe ARGUMENTS`` in ``folder``, leader of a group; what it says lies in the file SAID there. first: called in it."""
    with contextlib.chdir(ROOT):  # where the server finds what it imports; it begins with the first process
        forkserver.ensure_running()
    process = _server.Process(target=_command, args=(folder, list(map(str, arguments)), first))
    process.start()
    return process


def run(folder: Path, *arguments: object, status: Container = (0,), first: Callable[[], None] | None = None) -> str:
    """What was said on either stream by a command that must end with one of ``status``."""
    process = started(folder, *arguments, first=first)
    process.join(_LONGEST_S)
    said = (folder / SAID).read_text(encoding="utf-8")
    assert process.exitcode in status, f"{arguments} ended with {process.exitcode}: {said[-2000:]}"
    return said


def until(met: Callable[[], bool], process: multiprocessing.Process) -> None:
    """Wait for ``met``. Raises AssertionError when the process ends before it."""
    end = time.monotonic() + _LONGEST_S
    while not met():
        assert process.is_alive(), f"ended with {process.exitcode}"
        assert time.monotonic() < end
        time.sleep(0.002)


def _command(folder: Path, arguments: list[str], first: Callable[[], None] | None) -> None:
    os.setpgrp()
    os.chdir(folder)
    said = os.open(SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    # A shell starts what it puts into the background with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["vse-pipe", *arguments]
    if first is not None:
        first()
    cli.main()
