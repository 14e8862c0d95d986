"""The contracts of pyproject.toml: a room imports from lower floors, members know nothing of each other."""

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.rules.sources import ROOT


def test_every_contract_is_kept(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out
