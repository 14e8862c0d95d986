import os
import sys
from pathlib import Path

import pytest

from pipeline import cli


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder, no project around it; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vse-pipe", *map(str, arguments)])
        folder = Path.cwd()
        with pytest.raises(SystemExit) as stop:
            cli.main()
            raise SystemExit(0)
        os.chdir(folder)
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run
