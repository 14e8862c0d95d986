"""init --upgrade: what follows from the installed package anew, nothing of the user's."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.rules.sources import ROOT
from vse_pipe.tools.init import stage


def _commit(message: str) -> None:
    for command in (["add", "."], ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", message]):
        subprocess.run(["git", *command], check=True)


def test_upgrade_writes_what_follows_from_the_package_and_nothing_that_is_not_committed(call):
    call("init", "mine")
    os.chdir("mine")
    path, new = Path("dvc.yaml"), stage.stages_text()
    status, _, err = call("init", "--upgrade")
    assert (status, err) == (
        2,
        "error: init --upgrade: commit dvc.yaml first; `git diff` then shows what has changed\n",
    )
    path.write_text(new.replace("  localize:\n", "  locate:\n"), encoding="utf-8")
    pinned, workflow = Path("requirements.txt"), Path(".github/workflows/experiments.yml")
    own, older = pinned.read_text(), "on: push\n"
    pinned.write_text("vse-pipe==0.1\n")
    workflow.write_text(f"{stage._mark(older)}{older}")
    _commit("as an older version has it")
    params = Path("params.yaml").read_bytes()
    status, _, said = call("init", "--upgrade")
    assert (status, "dvc.yaml, requirements.txt, .github/workflows/experiments.yml; `vse" in said) == (0, True)
    assert path.read_text(encoding="utf-8") == new
    assert Path("params.yaml").read_bytes() == params
    assert (pinned.read_text(), workflow.read_text()) == (own, stage._from_version()[str(workflow)])


def test_upgrade_leaves_what_was_changed_and_says_so(call):
    call("init", "mine")
    os.chdir("mine")
    changed = {"requirements.txt": "vse-pipe==0.1\nwandb\n", ".github/workflows/experiments.yml": None}
    changed[".github/workflows/experiments.yml"] = Path(".github/workflows/experiments.yml").read_text() + "# mine\n"
    for name, text in changed.items():
        Path(name).write_text(text)
    _commit("mine")
    status, _, said = call("init", "--upgrade")
    assert (status, "dvc.yaml; requirements.txt, .github/workflows/experiments.yml: yours, left as it is" in said) == (
        0,
        True,
    )
    assert {name: Path(name).read_text() for name in changed} == changed


def test_upgrade_leaves_what_is_no_utf_8(call):
    call("init", "mine")
    os.chdir("mine")
    pinned = Path("requirements.txt")
    pinned.write_bytes(b"vse-pipe==0.1 # caf\xe9\n")
    _commit("in Latin 1")
    status, _, said = call("init", "--upgrade")
    assert (status, "dvc.yaml, .github/workflows/experiments.yml; requirements.txt: yours" in said) == (0, True)
    assert pinned.read_bytes() == b"vse-pipe==0.1 # caf\xe9\n"


def test_upgrade_reads_all_before_it_writes(call, monkeypatch):
    call("init", "mine")
    os.chdir("mine")
    Path("dvc.yaml").write_text("stages: {}\n")
    _commit("as an older version has it")
    read = Path.read_text

    def unreadable(path, *arguments, **options):
        if path.name == "requirements.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert call("init", "--upgrade")[0] == 1
    assert Path("dvc.yaml").read_bytes() == b"stages: {}\n"


def test_a_clone_has_its_own_dvc_yaml(call):
    shutil.copy(ROOT / "params.yaml", ".")
    Path("pipeline/vse_pipe").mkdir(parents=True)
    Path("pipeline/vse_pipe/cli.py").touch()
    status, _, err = call("init", "--upgrade")
    assert (status, err) == (2, "error: init --upgrade: this is a clone, whose dvc.yaml comes with its code\n")
    assert not Path("dvc.yaml").exists()
