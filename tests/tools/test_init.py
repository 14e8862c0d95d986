"""`vse-pipe init` and `apply`: the files of a new project, places refused, --upgrade, overlays, and requirements.txt."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from tests import templates
from tests.command_line import caller, failure, output
from tests.resolved import resolved
from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.tools import check, init

WORKFLOW, PINNED = Path(".github/workflows/experiments.yml"), Path("requirements.txt")


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder; the page with Vega, which takes seconds, is a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "plots_page", lambda: "{plot_divs}")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "me")
    return caller(monkeypatch, capsys)


@pytest.fixture
def mine(call):
    """The command line in a new project."""
    said = output(call, "init", "mine")[1]
    assert said == "init: mine is a project; `vse-pipe apply` there adds to its params.yaml\n"
    os.chdir("mine")
    return call


def _everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if ".git" not in path.relative_to(root).parts}


def _git(*arguments: object) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_project_is_well_and_has_neither_code_nor_demo(mine):
    found = _everything(Path())
    assert {"params.yaml", "dvc.yaml", ".gitignore", ".dvcignore", "reports", "data/audit/README.md"} <= found
    assert {".dvc/config", ".dvc/.gitignore", ".dvc/plots.html", ".dvc/plots/rsum.json", "requirements.txt"} <= found
    assert not [name for name in found if name.endswith(".py") or name.startswith(("pipeline", "vse_pipe"))]
    assert Path(".dvc/config").read_bytes() == (ROOT / ".dvc/config").read_bytes()
    assert Path(".gitignore").read_bytes().startswith((ROOT / ".gitignore").read_bytes())
    own, packaged = read_document(Path("params.yaml")), read_document(ROOT / "params.yaml")
    assert own == {**packaged, **{name: {} for name in overlay.NODES}}
    out, _ = output(mine, "check")
    line = "note     params.yaml runs: there are none, and nothing to report on; `vse-pipe apply`"
    assert out.startswith(line), "a new project is no error"
    assert _git("rev-list", "--count", "HEAD") == "1", "`dvc exp run` needs a commit"
    assert _git("status", "--porcelain", "-uall") == ""
    tracked = _git("ls-files")
    assert (".dvc/plots/rsum.json" in tracked, "plots.html" in tracked) == (True, False)


def test_without_a_name_of_the_user_nothing_is_committed_and_it_is_said(call, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    said = output(call, "init", "mine")[1]
    assert "nothing is committed" in said
    assert "`dvc exp run` needs a commit" in said
    assert subprocess.run(["git", "-C", "mine", "log"], capture_output=True).returncode == 128
    assert Path("mine/dvc.yaml").is_file()


TABLES = {
    *("photos/captions.csv", "photos/dataset_mine.json", "cc/train_caps.tsv"),
    *("f30k/train_caps.txt", "f30k/train_ids.txt"),
}
NO_TABLES = {
    *("photos/a.jpg", "photos/b.JPG", "photos/deep/c.png", "d.jpeg", "f30k/train_ims.npy", "web/0000.tar", "a.pth"),
    *("glove.6B.300d.txt", "word2vec.bin", "wiki.vec", "boxes.tsv", "raw/model.safetensors", "raw/photos.zip"),
    *("data/raw/mine/captions.csv", "data/prepare/mine/images.parquet"),
}


def test_git_takes_tables_and_no_pictures_arrays_or_weights(mine):
    before = set(_git("add", "--all", "--dry-run").splitlines())
    for name in TABLES | NO_TABLES:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x", encoding="utf-8")
    assert set(_git("add", "--all", "--dry-run").splitlines()) - before == {f"add '{name}'" for name in TABLES}


@pytest.mark.parametrize("name", ["flickr8k", "shapes_strong"])
def test_an_overlay_and_values_are_in_it_and_rendered_pictures_need_no_code(call, name):
    output(call, "-S", "seed=7", "init", "mine", "--overlay", name)
    os.chdir("mine")
    params = load(Path("params.yaml"))
    assert ([problem for problem in check.check([]).problems if problem.status], params.seed) == ([], 7)
    sources = {one.source for one in params.datasets.values() if one.format.name == "shapes"}
    assert sources == (set() if name == "flickr8k" else {"requirements.txt"})
    assert name != "flickr8k" or list(params.datasets) == ["flickr8k"]


def test_its_stages_are_those_of_this_repository_but_for_the_code(tmp_path):
    params = read_document(ROOT / "params.yaml")
    params["report"] |= {"audits": ["max"], "localized": ["hal"]}
    params["ensembles"] = {"both": {"runs": ["sum", "max"]}}
    params["teachers"] = {"soft": {"dataset": "shapes", "noise": "clean", "run": "sum"}}
    for name, text in templates.TEXTS.items():
        assert (init.TEMPLATE / name).read_text(encoding="utf-8") == text(), "run `python -m tests.templates`"
    texts = templates.stages_text(), (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    own, theirs = (resolved(text, params) for text in texts)
    first, *rest = own
    assert (first.name, first.outs, first.cmd) == ("code", {"data/code"}, "PATH=$PATH:.venv/bin vse-pipe code")
    assert len(rest) == len(theirs) > 15
    for mine, original in zip(rest, theirs, strict=True):
        source = params["datasets"]["shapes"]["source"]
        kept = [dep for dep in original.deps if not dep.startswith("pipeline/") or dep == source]
        listed = [f"data/code/{original.name.replace('@', '/')}"] if original.deps else []
        assert sorted(mine.deps) == sorted([*kept, *listed])
        cmd = original.cmd.replace(" PYTHONPATH=pipeline:$PYTHONPATH", "")
        assert (mine.name, mine.params, mine.outs, mine.cmd) == (original.name, original.params, original.outs, cmd)
    parsed, repository = (YAML(typ="safe").load(text) for text in texts)
    assert parsed["stages"]["code"]["always_changed"] is True
    drawn = {name: plot.pop("template") for one in parsed["plots"] for name, plot in one.items()}
    before = {name: plot.pop("template") for one in repository["plots"] for name, plot in one.items()}
    assert parsed["plots"] == repository["plots"]
    assert {name: f"pipeline/vse_pipe/report/plots/{one}.json" for name, one in drawn.items()} == before
    for name in ("extract", "train"):
        assert parsed["stages"][name]["do"]["outs"] == repository["stages"][name]["do"]["outs"], name


def test_the_workflow_installs_the_package_and_pages_are_said_to_be_of_it(mine):
    text = WORKFLOW.read_text(encoding="utf-8")
    assert not [word for word in ("make ", "tests/") if word in text]
    own, theirs = (YAML(typ="safe").load(one) for one in (text, (ROOT / WORKFLOW).read_text()))
    steps, others = own["jobs"]["compare"]["steps"], theirs["jobs"]["compare"]["steps"]
    different = [(a["name"], a["run"]) for a, b in zip(steps, others, strict=True) if a != b]
    assert [name for name, _ in different] == ["Set up", "Reproduce the pull request"]
    assert "pip install --requirement requirements.txt" in different[0][1]
    assert PINNED.read_text() == init.requirement()
    paths = [path for path in Path().rglob("*") if path.is_file() and path.suffix in (".yaml", ".md", ".yml")]
    assert Path("params.yaml") in paths
    links = {path: re.findall(r"(?<!vse-pipe's )docs/\w+\.md", path.read_text()) for path in paths}
    assert {path: found for path, found in links.items() if found} == {}


def _written(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")


PLACES = {
    "is there already": lambda root: _written(root / "mine/notes.txt"),
    "mine is there already": lambda root: (root / "mine").symlink_to("."),
    "would lie in the git repository": lambda root: subprocess.run(["git", "init", "-q", str(root)], check=True),
}


@pytest.mark.parametrize("said", PLACES)
def test_a_place_that_is_taken_stays_as_it_is(call, tmp_path, said):
    PLACES[said](tmp_path)
    before = _everything(tmp_path)
    status, out, err = call("init", "mine")
    assert (status, out, said in err, err.count("\n")) == (2, "", True, 1), err
    assert _everything(tmp_path) == before


REFUSED = [
    (("init",), "takes the folder of a new project, or --upgrade"),
    (("init", "."), "you are in"),
    (("init", "not/there"), "not is no folder; make it first"),
    (("-S", "train.epoch=3", "init", "mine"), "params.yaml train.epoch: unknown key"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(one) for one, _ in REFUSED])
def test_what_is_wrong_is_said_and_nothing_is_left(call, tmp_path, arguments, said):
    assert said in failure(call, 2, *arguments)
    assert _everything(tmp_path) == set()


def test_a_git_that_is_not_there_or_fails_leaves_nothing(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not on the PATH" in failure(call, 4, "init", "mine")
    assert _everything(tmp_path) == set()
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:/bin")
    assert failure(call, 1, "init", "mine") == "error: git init: no room\n"
    assert _everything(tmp_path) == {"bin", "bin/git"}


def test_every_file_of_the_template_has_its_place():
    used = {*init._COPIED, *templates.TEXTS, "begin.yaml", "plots_page.html", "plots_page.js"}
    assert {path.name for path in init.TEMPLATE.iterdir()} == used
    tracked = {ROOT / name for name in _git("-C", str(ROOT), "ls-files").splitlines()}
    assert {path.resolve() for path in init.TEMPLATE.iterdir() if path.is_symlink()} <= tracked


def _commit(message: str) -> None:
    _git("add", ".")
    _git("commit", "-qm", message)


def test_upgrade_writes_what_follows_from_the_package_and_nothing_that_is_not_committed(mine):
    path, new = Path("dvc.yaml"), templates.stages_text()
    files = {name: name.read_bytes() for name in (path, PINNED, WORKFLOW)}
    for name in files:
        name.write_text("of an older version\n", encoding="utf-8")
    assert "`git diff` then shows" in failure(mine, 2, "init", "--upgrade")
    assert path.read_text() == "of an older version\n"
    _commit("as an older version has it")
    params = Path("params.yaml").read_bytes()
    assert f"dvc.yaml, {WORKFLOW}, requirements.txt are" in output(mine, "init", "--upgrade")[1]
    assert {name: name.read_bytes() for name in files} == files
    assert (path.read_text(encoding="utf-8"), Path("params.yaml").read_bytes()) == (new, params)


def test_a_clone_has_its_own_dvc_yaml(call):
    shutil.copy(ROOT / "params.yaml", ".")
    Path("pipeline/vse_pipe").mkdir(parents=True)
    Path("pipeline/vse_pipe/cli.py").touch()
    told = "error: init --upgrade: this is a clone, whose dvc.yaml comes with its code\n"
    assert failure(call, 2, "init", "--upgrade") == told
    assert not Path("dvc.yaml").exists()


DIGEST, COMMIT, WHEEL = "0c" * 32, "1f" * 20, "https://host.org/v-0.9-py3-none-any.whl"


@pytest.fixture
def installed(monkeypatch):
    """A function of direct_url.json to the lines of requirements.txt, comments apart."""

    def lines(about: dict | None) -> tuple[list[str], list[str]]:
        texts = {"direct_url.json": None if about is None else json.dumps(about)}
        monkeypatch.setattr(init, "distribution", lambda name: SimpleNamespace(read_text=texts.__getitem__))
        found = init.requirement().splitlines()
        return [line for line in found if line[0] == "#"], [line for line in found if line[0] != "#"]

    monkeypatch.setattr(init, "version", lambda name: "0.9")
    return lines


def test_the_version_of_an_index_and_a_wheel_or_folder_of_this_machine(installed, tmp_path):
    assert installed(None) == ([], ["vse-pipe==0.9"])
    wheel = (tmp_path / "vse_pipe-0.9-py3-none-any.whl").as_uri()
    told, lines = installed({"url": wheel, "archive_info": {"hashes": {"sha256": DIGEST}}})
    assert lines == [f"vse-pipe @ {wheel}#sha256={DIGEST}"]
    assert "CI do not have" in " ".join(told)
    assert installed({"url": tmp_path.as_uri(), "dir_info": {}})[1] == [f"vse-pipe @ {tmp_path.as_uri()}"]


GIT = {"url": "https://me:secret@host.org/vse.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}


@pytest.mark.parametrize(
    ("about", "line"),
    [
        (GIT, f"vse-pipe @ git+https://host.org/vse.git@{COMMIT}"),
        ({"url": WHEEL, "archive_info": {"hashes": {"sha256": DIGEST}}}, f"vse-pipe @ {WHEEL}#sha256={DIGEST}"),
    ],
)
def test_from_a_repository_the_commit_and_from_a_wheel_its_digest(installed, about, line):
    assert (installed(about), Requirement(line).name) == (([], [line]), "vse-pipe")
