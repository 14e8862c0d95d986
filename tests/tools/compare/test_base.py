"""--base: side A from a git revision, in a small repository of git and DVC."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.command_line import caller
from tests.tools.compare import project
from tests.toy_project import PARAMS, write_params
from vse_pipe.project import paths

# Two revisions of the project below a DVC repository below a git repository: the roots need not agree.
PLACE = Path("work") / "retrieval"
# From within DVC, about a dependency of its own.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


def _git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def _commit(root: Path, message: str) -> None:
    with Repo(str(root / "work")) as repo:
        repo.add(str(root / PLACE / "data" / "evaluate"))
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", message)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """Revision one: sum ranks worse, under nns only. Revision two, checked out: sum under nns and csls, and
    hal."""
    root = tmp_path_factory.mktemp("repository")
    (root / PLACE).mkdir(parents=True)
    write_params(root / PLACE, runs={name: dict(PARAMS["runs"]["sum"]) for name in ("sum", "hal")})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root / PLACE)
        _git(root, "init", "-q")
        Repo.init(str(root / "work"), subdir=True).close()
        project.write_run("sum", "nns", images=80, quality=0.3)
        _commit(root, "one")
        _git(root, "tag", "one")
        project.write_run("sum", "nns", "csls", images=80, quality=0.9)
        project.write_run("hal", "nns", images=80, quality=0.7)
        _commit(root, "two")
    return root


@pytest.fixture
def run(monkeypatch, tmp_path, capsys, repository):
    """Call the command in a copy of the project; returns (exit status, stdout, stderr)."""
    shutil.copytree(repository, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy" / PLACE)
    return caller(monkeypatch, capsys, "compare")


def test_a_run_against_what_it_was(run):
    status, out, err = run("sum", "--base", "one", "--json", "--resamples", "60")
    assert (status, err) == (0, "")
    (found,) = json.loads(out)["comparisons"]
    assert (found["a"]["name"], found["b"]["name"]) == ("one:sum", "sum")
    assert found["a"]["inference"] == found["b"]["inference"] == "nns"
    here = json.loads((paths.evaluated("sum", "nns") / "metrics.json").read_text())
    assert found["rsum"]["b"] == here["rsum"]
    assert found["rsum"]["difference"] > 50


def test_another_run_or_a_folder_of_a_revision(run):
    both = run("sum", "hal", "--base", "HEAD", "--json", "--resamples", "60")
    folder = run("data/evaluate/sum/nns", "hal", "--base", "HEAD", "--json", "--resamples", "60")
    (first,), (second,) = (json.loads(out)["comparisons"] for _, out, _ in (both, folder))
    assert first["a"]["name"] == "HEAD:sum"
    assert second["a"]["name"] == "HEAD:data/evaluate/sum/nns"
    assert first["rsum"] == second["rsum"]
    itself = run("data/evaluate/sum/nns", "--base", "HEAD", "--json", "--resamples", "60")
    assert json.loads(itself[1])["comparisons"][0]["rsum"]["difference"] == 0


def test_a_drop_against_the_base_fails(run):
    project.write_run("sum", "nns", images=80, quality=0.1)
    status, _, err = run("sum", "--base", "HEAD~1", "--inference", "nns", "--max-drop", "1", "--resamples", "60")
    assert status == 1
    assert err.startswith("error: nns: image_to_text r@1 fell by ")


@pytest.mark.parametrize("only_files", [True, False])
def test_data_that_is_not_in_the_cache_is_status_4(run, tmp_path, only_files):
    cache = tmp_path / "copy" / "work" / ".dvc" / "cache" / "files" / "md5"
    if only_files:
        for file in [file for file in cache.glob("*/*") if file.suffix != ".dir"]:
            file.unlink()
    else:
        shutil.rmtree(cache)
    for run_a in ("sum", "data/evaluate/sum/nns"):
        status, out, err = run(run_a, "hal", "--base", "one", "--inference", "nns")
        assert (status, out) == (4, "")
        assert err.startswith("error: one:data/evaluate/sum"), err
        assert "is not in the DVC cache; get it with `dvc fetch` after `git checkout one`" in err
        assert "`dvc repro`" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("rev", ["no-such-revision", "HEAD~9"])
def test_an_unknown_revision_is_status_2(run, rev):
    status, out, err = run("sum", "--base", rev)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: --base {rev}: unknown Git revision '{rev}'"), err
    assert err.count("\n") == 1


def test_what_the_revision_lacks_is_named(run):
    assert run("hal", "--base", "one")[::2] == (
        3,
        "error: one has no data/evaluate/hal; it was not evaluated in that revision\n",
    )
    status, _, err = run("sum", "--base", "one", "--inference", "csls")
    assert (status, err) == (2, "error: one:sum has no evaluation under 'csls'; it has: nns\n")
    status, _, err = run("/elsewhere/nns", "sum", "--base", "one")
    assert status == 2
    assert err.startswith("error: /elsewhere/nns lies outside the project")


def test_a_bad_file_is_named_by_its_revision(run, tmp_path):
    file = paths.evaluated("sum", "nns") / "ranks.parquet"
    file.write_bytes(b"PAR1 no more")
    _commit(tmp_path / "copy", "three")
    project.write_run("sum", "nns", "csls", images=80, quality=0.9)
    status, _, err = run("sum", "--base", "HEAD")
    assert status == 5
    assert err.startswith("error: HEAD:data/evaluate/sum/nns/ranks.parquet: damaged Parquet file"), err


def test_outside_a_repository_or_a_project_it_is_status_2(run, tmp_path, monkeypatch):
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    status, _, err = run("sum", "--base", "one")
    assert (status, "run it inside a vse-pipe project" in err) == (2, True)
    write_params(tmp_path / "bare")
    project.write_run("sum")
    status, _, err = run("sum", "--base", "one")
    assert (status, err.startswith("error: --base one: you are not inside of a DVC repository")) == (2, True), err
