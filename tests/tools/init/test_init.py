"""A project of one's own: what lies in it, and what `init` refuses without leaving anything behind."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.tools import check
from vse_pipe.tools.init import stage


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
    tables = {
        "photos/captions.csv",
        "photos/dataset_mine.json",
        "cc/train_caps.tsv",
        "f30k/train_caps.txt",
        "f30k/train_ids.txt",
    }
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
    status, _, said = call("-S", "seed=7", "init", "mine", "--overlay", "flickr8k")
    assert status == 0, said
    os.chdir("mine")
    params = load(Path("params.yaml"))
    assert list(params.datasets) == ["flickr8k"]
    assert params.seed == 7
    assert check.dvc_yaml_problems(params, read_document(Path("params.yaml"))) == []


@pytest.mark.parametrize("name", ["shapes_strong", "noise", "localisation"])
def test_rendered_pictures_need_no_code(call, name):
    status, _, said = call("init", "mine", "--overlay", name)
    assert status == 0, said
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


def test_the_workflow_installs_the_package_and_is_otherwise_that_of_this_repository(call):
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


def test_pages_that_a_project_does_not_have_are_said_to_be_of_the_package(call):
    call("init", "mine")
    texts = {
        path: path.read_text()
        for path in Path("mine").rglob("*")
        if path.is_file() and path.suffix in (".yaml", ".md", ".yml")
    }
    assert Path("mine/params.yaml") in texts
    assert {
        path: found for path, text in texts.items() if (found := re.findall(r"(?<!vse-pipe's )docs/\w+\.md", text))
    } == {}


def _occupied(root: Path) -> str:
    (root / "mine").mkdir()
    (root / "mine" / "notes.txt").write_text("mine")
    return "is not empty (notes.txt)"


def _a_file(root: Path) -> str:
    (root / "mine").write_text("mine")
    return "is there and no folder"


def _a_link(root: Path) -> str:
    (root / "elsewhere").mkdir()
    (root / "mine").symlink_to("elsewhere")
    return "is there and no folder"


def _in_a_repository(root: Path) -> str:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return f"would lie in the git repository {root}"


def _left(root: Path) -> str:
    (root / "mine.partial").mkdir()
    (root / "mine.partial" / "x").write_text("")
    return "mine.partial is not empty (x); choose another name, or move it away; an init that was killed leaves such a folder"


@pytest.mark.parametrize("prepare", [_occupied, _a_file, _a_link, _in_a_repository, _left])
def test_a_place_that_is_taken_stays_as_it_is(call, tmp_path, prepare):
    said = prepare(tmp_path)
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
    status, _, err = call(*arguments)
    assert status == 2
    assert said in err
    assert _everything(tmp_path) == set()


@pytest.mark.parametrize("name", ["Träume & 'my' \"pics\" (2) ${x} [y] {z}", "-dash"])
def test_other_names_are_taken_as_they_are(call, name):
    assert call("init", "--", name)[0] == 0
    assert (Path(name) / ".git").is_dir()


def test_an_empty_folder_is_taken(call):
    Path("mine").mkdir()
    assert call("init", "mine")[0] == 0
    assert Path("mine/params.yaml").is_file()


def test_without_git(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = call("init", "mine")
    assert (status, err) == (
        4,
        "error: init: git is not on the PATH, and DVC keeps experiments in a git repository; install git\n",
    )
    assert _everything(tmp_path) == set()


def test_a_git_that_fails_leaves_nothing(call, tmp_path, monkeypatch):
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:/bin")
    status, _, err = call("init", "mine")
    assert (status, err) == (1, "error: git init: no room\n")
    assert _everything(tmp_path) == {"bin", "bin/git"}


def test_a_hook_of_another_repository_does_not_lend_its_own(call, tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert call("init", "mine")[0] == 0
    assert Path("mine/.git").is_dir()


def test_every_file_of_the_template_has_its_place():
    used = {*stage._COPIED, "stages.yaml", "experiments.yml", "begin.yaml"}
    assert {path.name for path in stage.TEMPLATE.iterdir()} == used
    links = {path for path in stage.TEMPLATE.iterdir() if path.is_symlink()}
    assert {path.resolve().relative_to(ROOT) for path in links} <= {
        Path(one)
        for one in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    }
