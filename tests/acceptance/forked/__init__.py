"""``vse-pipe`` and ``dvc`` for pipelines under test: processes forked from one that has imported torch and its like, for each stage
of DVC takes three seconds to import them and less to work. The pipeline itself is imported anew, from the clone it runs in.
"""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_CLIENT = Path(__file__).with_name("client.py")


@functools.cache
def folder(**environment: str) -> Path:
    """A folder with ``vse-pipe``, ``dvc`` and ``module`` (``python -m``), to be put first in PATH; the process behind it ends with
    this one. environment: what libraries read when they are imported."""
    here = tempfile.TemporaryDirectory(prefix="forked")
    address = Path(here.name) / "socket"
    command = [sys.executable, "-m", "tests.acceptance.forked.server", str(address)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, env=os.environ | environment, cwd=_CLIENT.parents[3], **pipes)
    atexit.register(here.cleanup)
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    scripts = Path(here.name) / "bin"
    scripts.mkdir()
    source = _CLIENT.read_text(encoding="utf-8").replace("ADDRESS", repr(str(address)))
    for name in ("vse-pipe", "dvc", "module"):
        (scripts / name).write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        (scripts / name).chmod(0o755)
    return scripts
