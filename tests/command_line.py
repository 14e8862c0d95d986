"""The command line, called in this process."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vse_pipe import cli

Call = Callable[..., tuple[int, str, str]]


def heed_ctrl_c() -> None:
    """For ``preexec_fn``: a shell starts what it puts into the background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, *first: str) -> Call:
    """A function of the arguments that gives (exit status, stdout, stderr). first: what comes before them every time.

    A command may enter the project's root; the folder it was called in is entered again.
    """

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vse-pipe", *first, *map(str, arguments)])
        folder = Path.cwd()
        with pytest.raises(SystemExit) as stop:
            cli.main()
            raise SystemExit(0)
        os.chdir(folder)
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def output(call: Call, *arguments: object) -> tuple[str, str]:
    """stdout and stderr of a command that must succeed."""
    status, out, err = call(*arguments)
    assert status == 0, err
    return out, err


def json_document(call: Call, *arguments: object) -> dict:
    """The JSON document that a command prints."""
    return json.loads(output(call, *arguments)[0])


def failure(call: Call, status: int, *arguments: object) -> str:
    """stderr of a command that must end with ``status``."""
    ended, _, err = call(*arguments)
    assert ended == status, err
    return err
