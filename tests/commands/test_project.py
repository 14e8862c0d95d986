import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from vse_pipe.commands import _project
from vse_pipe.core.errors import UsageError


def test_an_ensemble_is_refused_with_its_runs_where_a_model_is_needed():
    pair = SimpleNamespace(members=("sgr", "saf"))
    nodes = {"runs": {"sgr": 1, "saf": 2}, "ensembles": {"sgraf": pair}, "groups": {}, "transfers": {}}
    params = SimpleNamespace(**nodes, models=lambda name: (name,))
    with pytest.raises(UsageError, match=r"'sgraf' is an ensemble .* sgr or saf"):
        _project.chosen_runs("sgraf", params)
    assert _project.chosen_runs("saf", params) == ["saf"]
    assert _project.chosen_runs(None, params) == ["sgr", "saf"]


def test_git_checkout_is_advised_only_where_it_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = Path("params.yaml")
    params.write_text("seed: 1\n")
    assert _project.undo(params) == "", "no repository"

    def git(*command: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *command], check=True)

    git("init", "-q")
    assert _project.undo(params) == "", "nothing is committed"
    git("add", "params.yaml")
    git("commit", "-qm", "start")
    assert _project.undo(params) == ", `git checkout params.yaml` takes it back"
    params.write_text("seed: 2\n")
    assert _project.undo(params) == "", "an edit of the user would be lost"
