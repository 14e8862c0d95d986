"""The installed command as a process of its own, and options of a command line."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evaluate.files import Files
from tests.rules.sources import ROOT
from vse_pipe import cli

COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'vse-pipe'; from vse_pipe.cli import main; main()"]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "DVC_"))}
    return {**kept, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}", **changes}


def run(*arguments: object, cwd: Path, **changes: str) -> tuple[int, bytes, bytes]:
    """(exit status, stdout, stderr). changes: of the environment."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, cwd=cwd, env=environment(**changes), timeout=120)
    return done.returncode, done.stdout, done.stderr


def arguments(files: Files) -> list[object]:
    """--images ... for what is set."""
    given = {name: value for name, value in vars(files).items() if value is not None}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]


def prefixed(folder: Path, *prefixes: str) -> dict[str, Path]:
    """Members of ``Files``: the files that ``write(..., prefix="bank_")`` wrote, or "val_"."""
    sides = (("images", "a.parquet"), ("captions", "b.parquet"))
    return {f"{prefix}{side}": folder / f"{prefix}{name}" for prefix in prefixes for side, name in sides}


def succeed(patch: pytest.MonkeyPatch, *command: object) -> str:
    """stderr of a command in this process that must succeed; fixtures of a module have no capsys."""
    err = io.StringIO()
    patch.setattr(sys, "argv", ["vse-pipe", *map(str, command)])
    with contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        cli.main()
        raise SystemExit(0)
    assert not stop.value.code, f"{command}: {err.getvalue()}"
    return err.getvalue()
