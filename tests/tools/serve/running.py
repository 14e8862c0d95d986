"""`vse-pipe serve` as a process of its own, on a free port."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.command_line import heed_ctrl_c
from tests.rules.sources import ROOT


def served(project: Path, *arguments: str, seconds: float = 0.0):
    """As ``started``, with the stand-in engine; seconds: what each search takes."""
    return started(
        project, "-m", "tests.tools.serve.standin_server", str(project / "pictures"), str(seconds), "serve", *arguments
    )


@contextmanager
def started(project: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """python with ``arguments``: the page's address and the process, whose stderr up to then is ``process.said``."""
    process = subprocess.Popen(
        [sys.executable, *arguments, "--port", "0"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
        text=True,
    )
    try:
        process.said = ""
        while not (ready := re.search(r"searching at (http://\S+/) until", process.said)):
            line = process.stderr.readline()
            assert line, f"ended before it was ready: {process.said}"
            process.said += line
        yield ready[1], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
