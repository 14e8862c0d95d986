"""An overlay after another: what it leaves in params.yaml is said, and what it does not speak of is left."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.command_line import caller
from vse_pipe.tools.init import stage


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in a new project; the page with Vega, which takes seconds, is a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "plots_page", lambda: "{plot_divs}")
    called = caller(monkeypatch, capsys)
    assert called("init", "mine")[0] == 0
    os.chdir("mine")
    return called


def test_options_of_the_overlay_before_are_named_unless_the_next_or_the_command_has_them(call):
    status, _, said = call("apply", "flickr8k_strong")
    assert (status, "kept" in said) == (0, False)
    status, _, said = call("-S", "evaluate={bank: test}", "apply", "flickr8k_losses")
    assert status == 0
    kept = said.splitlines()[0]
    assert kept.startswith("kept from before, unlike a new project: ")
    assert "train.average: 0.998" in kept
    assert "text.two_branch.drop: 0.4" in kept
    assert "train.lr:" not in kept  # which both have
    assert "evaluate" not in kept
    assert "runs" not in kept


def test_of_a_new_project_nothing_is_kept(call):
    assert "kept" not in call("apply", "flickr8k_losses")[2]


def test_pictures_that_are_not_rendered_keep_their_source(call):
    Path("own.yaml").write_text("datasets: {mine: {format: csv, source: pipeline/captions.csv}}")
    assert call("apply", "own.yaml")[0] == 0
    assert "source: pipeline/captions.csv" in Path("params.yaml").read_text()


def test_data_sets_that_are_no_mapping_are_one_line(call):
    Path("own.yaml").write_text("datasets: [1]")
    status, _, said = call("apply", "own.yaml")
    assert status == 2
    assert "params.yaml datasets: input should be a valid dictionary" in said


DIGEST, COMMIT = "0c" * 32, "1f" * 20


@pytest.fixture
def installed(monkeypatch):
    """A function of direct_url.json to the lines of requirements.txt, comments apart."""

    class Distribution:
        content: str | None = None

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return self.content

    def lines(about: dict | None) -> tuple[list[str], list[str]]:
        Distribution.content = None if about is None else json.dumps(about)
        found = stage.requirement().splitlines()
        return [line for line in found if line[0] == "#"], [line for line in found if line[0] != "#"]

    monkeypatch.setattr(stage, "distribution", lambda name: Distribution())
    monkeypatch.setattr(stage, "version", lambda name: "0.9")
    return lines


def test_from_an_index_it_is_the_version(installed):
    assert installed(None) == ([], ["vse-pipe==0.9"])


@pytest.mark.parametrize(
    ("about", "line"),
    [
        (
            {"url": "https://me:secret@host.org/vse.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"vse-pipe @ git+https://host.org/vse.git@{COMMIT}",
        ),
        (
            {"url": "https://host.org/v-0.9-py3-none-any.whl", "archive_info": {"hashes": {"sha256": DIGEST}}},
            f"vse-pipe @ https://host.org/v-0.9-py3-none-any.whl#sha256={DIGEST}",
        ),
        (
            {"url": "https://host.org/v-0.9-py3-none-any.whl", "archive_info": {"hash": f"sha256={DIGEST}"}},
            f"vse-pipe @ https://host.org/v-0.9-py3-none-any.whl#sha256={DIGEST}",
        ),
    ],
)
def test_from_a_repository_the_commit_and_from_a_wheel_its_digest(installed, about, line):
    assert installed(about) == ([], [line])
    assert Requirement(line).name == "vse-pipe"


def test_a_wheel_or_a_folder_of_this_machine_is_named_and_said_to_be_here_alone(installed, tmp_path):
    wheel = (tmp_path / "vse_pipe-0.9-py3-none-any.whl").as_uri()
    told, lines = installed({"url": wheel, "archive_info": {"hashes": {"sha256": DIGEST}}})
    assert lines == [f"vse-pipe @ {wheel}#sha256={DIGEST}"]
    assert "other machines and CI do not have" in " ".join(told)
    assert installed({"url": tmp_path.as_uri(), "dir_info": {}})[1] == [f"vse-pipe @ {tmp_path.as_uri()}"]
    assert installed({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})[1] == [f"--editable {tmp_path}"]


def _git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of a repository with a package, which is what is installed."""
    source = tmp_path / "origin"
    (source / "pipeline/vse_pipe").mkdir(parents=True)
    (source / "pipeline/vse_pipe" / "a.py").write_text("A = 1\n")
    _git(source, "init", "-q")
    _git(source, "add", ".")
    _git(source, "commit", "-qm", "one")
    _git(tmp_path, "clone", "-q", str(source), "clone")
    monkeypatch.setattr(stage, "PACKAGE", tmp_path / "clone" / "pipeline/vse_pipe")
    return tmp_path / "clone"


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://me:secret@host.org/a/b.git", "https://host.org/a/b.git"),
        ("git@host.org:a/b.git", "ssh://git@host.org/a/b.git"),
        ("ssh://git@host.org/a/b.git", "ssh://git@host.org/a/b.git"),
    ],
)
@pytest.mark.parametrize("editable", [True, False])
def test_of_a_clone_whose_commit_a_remote_has_it_is_the_commit(installed, clone, remote, address, editable):
    _git(clone, "remote", "set-url", "origin", remote)
    told, (line,) = installed({"url": clone.as_uri(), "dir_info": {"editable": editable}})
    assert (told, line) == ([], f"vse-pipe @ git+{address}@{_git(clone, 'rev-parse', 'HEAD')}")
    assert Requirement(line).name == "vse-pipe"


@pytest.mark.parametrize("why", ["a path", "changed", "not pushed", "other code"])
def test_of_a_clone_that_nobody_else_has_it_is_the_folder(installed, clone, monkeypatch, why):
    if why != "a path":
        _git(clone, "remote", "set-url", "origin", "https://host.org/a/b.git")
    if why == "other code":
        (clone.parent / "site" / "vse_pipe").mkdir(parents=True)
        monkeypatch.setattr(stage, "PACKAGE", clone.parent / "site" / "vse_pipe")
    if why in ("changed", "not pushed"):
        (clone / "pipeline/vse_pipe" / "a.py").write_text("A = 2\n")
    if why == "not pushed":
        _git(clone, "commit", "-qam", "two")
    assert installed({"url": clone.as_uri(), "dir_info": {"editable": True}})[1] == [f"--editable {clone}"]
