"""``vse-pipe`` and ``dvc`` for pipelines under test: processes forked from one that has imported torch and its like, for each stage
of DVC takes three seconds to import them and less to work. The pipeline itself is imported anew, from the clone it runs in.

``python -m tests.acceptance.forked ADDRESS`` is that process: it runs each command asked for in a fork of itself, until its input ends.
"""

import atexit
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

_IMPORTED = (
    "PIL.Image",
    "dvc.cachemgr",
    "dvc.cli.parser",
    "dvc.repo.experiments.queue.celery",
    "dvc.repo.artifacts",
    "dvc.repo.datasets",
    "dvc.repo.index",
    "dvc.repo.metrics.diff",
    "dvc.repo.reproduce",
    "dvc.stage.cache",
    "dvc.utils.serialize",
    "dvc_render",
    "grimp",
    "narwhals",
    "networkx",
    "pyarrow.dataset",
    "pygit2",
    "pyparsing",
    "ruamel.yaml",
    "tabulate",
    "tests.faults.warmed",
    "typer.main",
)
# Has a command run there, with the streams, the folder and the environment of this process. pathlib takes longer to import than all else.
_CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(ADDRESS)
    socket.send_fds(server, [b"x"], [0, 1, 2])
    asked = {"arguments": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}
    server.sendall(json.dumps(asked).encode())
    server.shutdown(socket.SHUT_WR)
    answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@functools.cache
def folder(**environment: str) -> Path:
    """A folder with ``vse-pipe``, ``dvc`` and ``module`` (``python -m``), to be put first in PATH; the process behind it ends with
    this one. environment: what libraries read when they are imported."""
    here = tempfile.TemporaryDirectory(prefix="forked")
    address = Path(here.name) / "socket"
    command = [sys.executable, "-m", "tests.acceptance.forked", str(address)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, env=os.environ | environment, cwd=Path(__file__).parents[2], **pipes)
    atexit.register(here.cleanup)
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    scripts = Path(here.name) / "bin"
    scripts.mkdir()
    source = _CLIENT.replace("ADDRESS", repr(str(address)))
    for name in ("vse-pipe", "dvc", "module"):
        (scripts / name).write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        (scripts / name).chmod(0o755)
    return scripts


def main(address: str) -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    sys.modules["dvc.cli.parser"].get_main_parser()
    sys.modules["PIL.Image"].init()
    _read_lock_files_fast()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("vse_pipe", "tests")]:
        del sys.modules[name]
    os.fsync = lambda handle: None  # as in tests/conftest.py
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _answer(connection)


def _read_lock_files_fast() -> None:
    """DVC reads dvc.lock once a stage with ruamel.yaml's Python parser, which keeps comments. The file has none, and the C parser,
    after which the same bytes are written, takes a sixth of the time: a third of what DVC itself takes."""
    serialize = sys.modules["dvc.utils.serialize._yaml"]
    parse_yaml = serialize.parse_yaml

    def parse(text: str, path: str) -> dict:
        return parse_yaml(text, path, typ="safe" if Path(path).name == "dvc.lock" else "rt")

    serialize.parse_yaml_for_update = parse


def _answer(connection: socket.socket) -> None:
    """Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as file:
        asked = json.loads(file.read())
    for stream, ours in enumerate(streams):
        os.dup2(ours, stream)
        os.close(ours)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[:0] = [str(Path(place).resolve()) for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    importlib.invalidate_caches()
    program, *arguments = asked["arguments"]
    status = _run(Path(program).name, arguments)
    # As at the end of a process.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([status]))
    os._exit(status)


def _run(program: str, arguments: list[str]) -> int:
    sys.argv = [program, *arguments]
    try:
        if program == "dvc":
            return importlib.import_module("dvc.cli").main(arguments)
        if program == "module":
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            importlib.import_module("vse_pipe.cli").main()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
