import pytest

from tests.command_line import caller


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder, no project around it; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    return caller(monkeypatch, capsys)
