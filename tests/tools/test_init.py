"""`vse-pipe init`: the files of a new project, places that it refuses, and --upgrade."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, failure, output
from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.tools import check
from vse_pipe.tools.init import stage


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in an empty folder; the page with Vega, which takes seconds, is a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "plots_page", lambda: "{plot_divs}")
    return caller(monkeypatch, capsys)


def _everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if ".git" not in path.relative_to(root).parts}


def test_a_project_is_well_and_has_neither_code_nor_demo(call):
    status, _, said = call("init", "mine")
    assert (status, said) == (
        0,
        "init: mine is a project, nothing in it is committed; `vse-pipe apply` adds to its params.yaml\n",
    )
    found = _everything(Path("mine"))
    assert {"params.yaml", "dvc.yaml", ".gitignore", ".dvcignore", "reports", "data/audit/README.md"} <= found
    assert {".dvc/config", ".dvc/.gitignore", ".dvc/plots.html", ".dvc/plots/rsum.json", "requirements.txt"} <= found
    assert not [name for name in found if name.endswith(".py") or name.startswith(("pipeline", "vse_pipe"))]
    os.chdir("mine")
    assert Path(".dvc/config").read_bytes() == (ROOT / ".dvc/config").read_bytes()
    assert Path(".gitignore").read_bytes().startswith((ROOT / ".gitignore").read_bytes())
    own, packaged = read_document(Path("params.yaml")), read_document(ROOT / "params.yaml")
    assert own == {**packaged, **{name: {} for name in overlay.NODES}}
    (found,) = check.dvc_yaml_problems(load(Path("params.yaml")), own)
    assert found.line.startswith("params.yaml runs: there are none, and nothing to report on; `vse-pipe apply`")
    status, said, _ = call("check")
    assert (status, said.split()[0]) == (0, "note"), "a new project is no error"
    assert subprocess.run(["git", "log"], capture_output=True, text=True).returncode == 128
    ignored = subprocess.run(["git", "status", "--porcelain", "-uall"], capture_output=True, text=True).stdout
    assert ".dvc/plots/rsum.json" in ignored
    assert "plots.html" not in ignored


def test_git_takes_tables_and_no_pictures_arrays_or_weights(call):
    call("init", "mine")
    os.chdir("mine")
    before = set(_added())
    tables = {"photos/captions.csv", "photos/dataset_mine.json", "cc/train_caps.tsv"}
    tables |= {"f30k/train_caps.txt", "f30k/train_ids.txt"}
    data = {
        "photos/a.jpg",
        "photos/b.JPG",
        "photos/deep/c.png",
        "d.jpeg",
        "f30k/train_ims.npy",
        "web/0000.tar",
        "resnet.pth",
    }
    data |= {"glove.6B.300d.txt", "word2vec.bin", "wiki.vec", "boxes.tsv", "raw/model.safetensors", "raw/photos.zip"}
    data |= {"data/raw/mine/captions.csv", "data/prepare/mine/images.parquet"}
    for name in tables | data:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x", encoding="utf-8")
    assert set(_added()) - before == tables


def _added() -> list[str]:
    told = subprocess.run(["git", "add", "--all", "--dry-run"], capture_output=True, text=True, check=True).stdout
    return [line.removeprefix("add '").removesuffix("'") for line in told.splitlines()]


def test_an_overlay_and_values_are_in_it(call):
    output(call, "-S", "seed=7", "init", "mine", "--overlay", "flickr8k")
    os.chdir("mine")
    params = load(Path("params.yaml"))
    assert list(params.datasets) == ["flickr8k"]
    assert params.seed == 7
    assert check.dvc_yaml_problems(params, read_document(Path("params.yaml"))) == []


@pytest.mark.parametrize("name", ["shapes_strong", "noise", "localisation"])
def test_rendered_pictures_need_no_code(call, name):
    output(call, "init", "mine", "--overlay", name)
    os.chdir("mine")
    params, document = load(Path("params.yaml")), read_document(Path("params.yaml"))
    assert check.dvc_yaml_problems(params, document) == []
    assert {one.source for one in params.datasets.values() if one.format.name == "shapes"} == {"requirements.txt"}


def test_its_stages_are_those_of_this_repository_but_for_the_code(tmp_path):
    path = tmp_path / "dvc.yaml"
    path.write_text(stage.stages_text(), encoding="utf-8")
    params = read_document(ROOT / "params.yaml")
    params["report"] |= {"audits": ["max"], "localized": ["hal"]}
    params["ensembles"] = {"both": {"first": "sum", "second": "max"}}
    params["teachers"] = {"soft": {"dataset": "shapes", "noise": "clean", "run": "sum"}}
    own, wrong = check.read_dvc_yaml(path, params)
    theirs, also_wrong = check.read_dvc_yaml(ROOT / "dvc.yaml", params)
    assert wrong == also_wrong == []
    first, *rest = own
    assert (first.name, first.outs, first.cmd) == ("code", ("data/code",), "PATH=$PATH:.venv/bin vse-pipe code")
    assert len(rest) == len(theirs) > 15
    for mine, original in zip(rest, theirs, strict=True):
        kept = [
            dep
            for dep in original.deps
            if not dep.startswith("pipeline/") or dep == params["datasets"]["shapes"]["source"]
        ]
        listed = [f"data/code/{original.name.replace('@', '/')}"] if original.deps else []
        assert sorted(mine.deps) == sorted([*kept, *listed])
        assert (mine.name, mine.params, mine.outs) == (original.name, original.params, original.outs)
        assert mine.cmd == original.cmd.replace(" PYTHONPATH=pipeline:$PYTHONPATH", "")
    parsed, repository = (YAML(typ="safe").load(one.read_text(encoding="utf-8")) for one in (path, ROOT / "dvc.yaml"))
    assert parsed["stages"]["code"]["always_changed"] is True
    templates = {name: plot.pop("template") for one in parsed["plots"] for name, plot in one.items()}
    before = {name: plot.pop("template") for one in repository["plots"] for name, plot in one.items()}
    assert parsed["plots"] == repository["plots"]
    assert {name: f"pipeline/vse_pipe/report/plots/{one}.json" for name, one in templates.items()} == before
    kept_settings = [parsed["stages"][name]["do"]["outs"] for name in ("extract", "train")]
    assert kept_settings == [repository["stages"][name]["do"]["outs"] for name in ("extract", "train")]


def test_the_workflow_installs_the_package_and_pages_are_said_to_be_of_it(call):
    call("init", "mine")
    text = Path("mine/.github/workflows/experiments.yml").read_text(encoding="utf-8")
    assert not [word for word in ("make ", "tests/") if word in text]
    own, theirs = (
        YAML(typ="safe").load(one) for one in (text, (ROOT / ".github/workflows/experiments.yml").read_text())
    )
    steps, others = own["jobs"]["compare"]["steps"], theirs["jobs"]["compare"]["steps"]
    different = [(a["name"], a["run"]) for a, b in zip(steps, others, strict=True) if a != b]
    assert [name for name, _ in different] == ["Set up", "Reproduce the pull request"]
    assert "pip install --requirement requirements.txt" in different[0][1]
    mark, text = Path("mine/requirements.txt").read_text().split("\n", 1)
    assert (mark.startswith("# Written by `vse-pipe init`"), text) == (True, stage.requirement())
    texts = {
        path: path.read_text()
        for path in Path("mine").rglob("*")
        if path.is_file() and path.suffix in (".yaml", ".md", ".yml")
    }
    assert Path("mine/params.yaml") in texts
    assert {
        path: found for path, text in texts.items() if (found := re.findall(r"(?<!vse-pipe's )docs/\w+\.md", text))
    } == {}


def _written(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")


PLACES = {
    "is not empty (notes.txt)": lambda root: _written(root / "mine/notes.txt"),
    "is there and no folder": lambda root: _written(root / "mine"),
    "mine is there and no folder": lambda root: (root / "mine").symlink_to("."),
    "would lie in the git repository": lambda root: subprocess.run(["git", "init", "-q", str(root)], check=True),
    "mine.partial is not empty (x); choose another name, or move it away; an init that was killed leaves such a folder": (
        lambda root: _written(root / "mine.partial/x")
    ),
}


@pytest.mark.parametrize("said", PLACES)
def test_a_place_that_is_taken_stays_as_it_is(call, tmp_path, said):
    PLACES[said](tmp_path)
    before = _everything(tmp_path)
    status, out, err = call("init", "mine")
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert _everything(tmp_path) == before


REFUSED = [
    (("init",), "takes the folder of a new project, or --upgrade"),
    (("init", "mine", "--upgrade"), "takes the folder of a new project, or --upgrade"),
    (("init", "."), "you are in"),
    (("init", ""), "you are in"),
    (("init", "a\nb"), "characters that cannot be shown"),
    (("init", "not/there"), "not is no folder; make it first"),
    (("init", "mine", "--overlay", "flikr8k"), "did you mean 'flickr8k'?"),
    (("-S", "train.epoch=3", "init", "mine"), "params.yaml train.epoch: unknown key"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(one) for one, _ in REFUSED])
def test_what_is_wrong_is_said_and_nothing_is_left(call, tmp_path, arguments, said):
    err = failure(call, 2, *arguments)
    assert said in err
    assert _everything(tmp_path) == set()


@pytest.mark.parametrize("name", ["Träume & 'my' \"pics\" (2) ${x} [y] {z}", "-dash"])
def test_other_names_are_taken_as_they_are(call, name):
    assert call("init", "--", name)[0] == 0
    assert (Path(name) / ".git").is_dir()


def test_a_git_that_is_not_there_or_fails_leaves_nothing(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = call("init", "mine")
    assert (status, err) == (
        4,
        "error: init: git is not on the PATH, and DVC keeps experiments in a git repository; install git\n",
    )
    assert _everything(tmp_path) == set()
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:/bin")
    status, _, err = call("init", "mine")
    assert (status, err) == (1, "error: git init: no room\n")
    assert _everything(tmp_path) == {"bin", "bin/git"}


def test_an_empty_folder_is_taken_and_a_hook_of_another_repository_does_not_lend_its_own(call, tmp_path, monkeypatch):
    Path("mine").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert call("init", "mine")[0] == 0
    assert Path("mine/params.yaml").is_file()
    assert Path("mine/.git").is_dir()


def test_every_file_of_the_template_has_its_place():
    used = {*stage._COPIED, "stages.yaml", "experiments.yml", "begin.yaml"}
    assert {path.name for path in stage.TEMPLATE.iterdir()} == used
    links = {path for path in stage.TEMPLATE.iterdir() if path.is_symlink()}
    assert {path.resolve().relative_to(ROOT) for path in links} <= {
        Path(one)
        for one in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    }


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
