"""The command line where a project is made."""

import pytest

from tests.command_line import caller
from vse_pipe.tools.init import stage


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder; the page with Vega, which takes seconds, is a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "plots_page", lambda: "{plot_divs}")
    return caller(monkeypatch, capsys)
