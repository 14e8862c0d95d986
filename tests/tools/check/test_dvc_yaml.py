"""dvc.yaml against params.yaml and the code."""

import shutil
from pathlib import Path

import pytest

from tests.rules.sources import ROOT
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.tools import check


def _problems() -> list[str]:
    found = check.dvc_yaml_problems(load(Path("params.yaml")), read_document(Path("params.yaml")))
    assert all(problem.status == 2 for problem in found)
    return [problem.line for problem in found]


def test_this_repository_is_well(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert _problems() == []


def test_a_project_that_has_left_shapes_is_well(tmp_path, monkeypatch):
    """With the source tree there, as in a clone: the renderer of shapes is nothing that other data sets must name."""
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "pipeline").symlink_to(ROOT / "pipeline")
    monkeypatch.chdir(tmp_path)
    overlays.apply(Path("params.yaml"), "flickr8k_precomp", [], [])
    for folder in ("data/audit", "data/localize", "data/raw/flickr8k_precomp"):
        Path(folder).mkdir(parents=True)
    assert _problems() == []


EDITS = [
    (
        '"data/sources/inject/${key}"',
        '"data/inject"',
        "dvc.yaml inject@clean: data/sources/inject/clean, which lists the files from outside that it reads, is no dependency; add "
        "`- data/sources/inject/clean` to its deps",
    ),
    ("foreach: ${runs}", "foreach: ${losses}", "dvc.yaml train: ${losses}: params.yaml has no such value"),
    ('outs: ["data/embed/${key}"]', 'outs: ["data/embedded/${key}"]', "dvc.yaml embed@sum: writes data/embedded/sum"),
    ("${cli} embed --run ${key}", "${cli} embed", "expected `vse-pipe embed --run sum`"),
    ("params: [embed]", "params: [embedding]", "dvc.yaml embed@sum: params.yaml has no embedding"),
    ("${item.texts}", "${item.words}", "${item.words}: params.yaml has no such value"),
    ("  report:\n", "  page:\n", "dvc.yaml report: the stage is missing"),
    ("      - reports/index.html\n", "", "does not name reports/index.html among its outputs"),
]


@pytest.mark.parametrize(("old", "new", "said"), EDITS, ids=[old.strip() for old, _, _ in EDITS])
def test_an_edit_that_breaks_it_is_named(made, old, new, said):
    text = Path("dvc.yaml").read_text(encoding="utf-8")
    assert old in text
    Path("dvc.yaml").write_text(text.replace(old, new), encoding="utf-8")
    found = _problems()
    assert any(said in line for line in found), found


def test_without_it_and_with_another_kind_of_file(made):
    Path("dvc.yaml").write_text("stages: []\n", encoding="utf-8")
    assert _problems() == ["dvc.yaml: has no section stages"]
    Path("dvc.yaml").unlink()
    assert _problems() == ["dvc.yaml: does not exist; `git checkout dvc.yaml` brings it back"]


def test_code_that_no_dependency_covers_is_named(tmp_path, monkeypatch):
    """With the source tree there, as in this repository: an import that dvc.yaml does not list, and a run's own loss."""
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    line = "        - pipeline/vse_pipe/train\n"
    assert line in text
    text = text.replace(line, "")
    (tmp_path / "dvc.yaml").write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    for folder in ("audit", "localize"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = _problems()
    file = "pipeline/vse_pipe/train/samplers/captions.py"
    assert f"dvc.yaml train: runs {file}, which is no dependency; add `- {file}` to its deps" in found
    assert any("train: runs pipeline/vse_pipe/train/losses/hal" in line for line in found)
    assert all("vse_pipe/train/" in line for line in found), found
