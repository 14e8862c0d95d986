"""`vse-pipe serve` as a process of its own, on a free port."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rules.sources import ROOT


@contextmanager
def served(project: Path, *arguments: str, seconds: float = 0.0) -> Iterator[tuple[str, subprocess.Popen]]:
    """The page's address and the process; stderr up to the ready line is kept in ``process.said``."""
    command = [sys.executable, "-m", "tests.serve.standin_server", str(project / "pictures"), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", *arguments],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
