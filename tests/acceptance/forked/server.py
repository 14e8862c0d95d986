"""Imports once what every stage imports, then runs each command asked for in a fork of itself, until its input ends."""

import atexit
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

import dvc.cli.parser
import dvc.repo.experiments.queue.celery
import dvc.repo.index
import dvc.repo.metrics.diff
import dvc.repo.reproduce
import dvc.stage.cache
import networkx  # noqa: F401
import pygit2  # noqa: F401
import tabulate  # noqa: F401

import tests.faults.warmed  # noqa: F401


def main(address: str) -> None:
    dvc.cli.parser.get_main_parser()
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
