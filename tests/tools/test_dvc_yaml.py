"""dvc.yaml, dvc.lock and the lists of code against params.yaml and the code."""

import contextlib
import os
import re
import shutil
from pathlib import Path

import pytest
from dvc.repo import Repo

import vse_pipe
from tests.made import record
from tests.rules.sources import ROOT
from vse_pipe.commands import _project
from vse_pipe.commands import project as command
from vse_pipe.core.errors import ParamsError
from vse_pipe.project import code, paths, sources
from vse_pipe.project.code import Lock
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import LOSSES
from vse_pipe.project.stages import declarations
from vse_pipe.tools.check import check, dvc_yaml_problems
from vse_pipe.tools.init import stage


def _problems() -> list[str]:
    found = dvc_yaml_problems(load(Path("params.yaml")), read_document(Path("params.yaml")))
    assert all(problem.status == 2 for problem in found)
    return [problem.line for problem in found]


def test_this_repository_is_well_and_a_project_that_has_left_shapes(monkeypatch, tmp_path):
    """With the source tree there, as in a clone: the renderer of shapes is nothing that other data sets must name."""
    monkeypatch.chdir(ROOT)
    assert _problems() == []
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


@pytest.fixture(scope="module")
def listed_once(_made_once, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("listed") / "project"
    shutil.copytree(_made_once, root)
    with contextlib.chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_project, "overrides", [])
        Path("pipeline").rmdir()
        Path("dvc.yaml").write_text(stage.stages_text(), encoding="utf-8")
        command.code()
        record()
    return root


@pytest.fixture
def listed(listed_once, tmp_path, monkeypatch) -> Path:
    """A copy of the project as `vse-pipe init` makes them, run by DVC; the working directory."""
    root = tmp_path / "project"
    shutil.copytree(listed_once, root)
    monkeypatch.setattr(_project, "overrides", [])
    monkeypatch.chdir(root)
    return root


def test_each_stage_has_a_list_of_what_it_runs_and_entries_that_go_take_theirs_along(listed):
    params = load(Path("params.yaml"))
    found = {str(path.relative_to(paths.CODE)) for path in paths.CODE.rglob("*") if path.is_file()}
    assert {"inject/clean", "inject/half", "train/sum", "evaluate/sum", "report"} <= found
    train = declarations()["train"]
    text = (paths.CODE / "train" / "sum").read_text(encoding="utf-8")
    members = train.members(params, "sum")
    assert text == code.listing(code.needed(train, members) | code.defaults(train, members)) + "\n"
    assert "vse_pipe.train.losses.sum " in text
    assert "vse_pipe.train.losses.max" not in text
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(re.sub(r"  half:\n(    .*\n)+", "", text), encoding="utf-8")
    command.code()
    assert (paths.CODE / "inject" / "clean").is_file()
    assert not (paths.CODE / "inject" / "half").exists()


def test_a_module_that_changed_makes_stale_what_runs_it(listed, tmp_path, monkeypatch):
    assert check([]).problems == []
    module = LOSSES.module("sum")
    newer, own = tmp_path / "newer.py", code.file
    newer.write_bytes(own(module).read_bytes() + b"# a comment\n")
    monkeypatch.setattr(code, "file", lambda name: newer if name == module else own(name))
    (found,) = check([]).problems
    assert found.line == f"data/train/sum: stale: {module} changed since; run `dvc repro train@sum`"
    newer.unlink()
    assert [one.line for one in check([]).problems] == [found.line]


def test_a_list_that_is_nowhere_says_nothing_and_a_stage_that_watches_none_is_named(listed):
    path = paths.CODE / "train" / "sum"
    code.cache_object(code.md5(path)).unlink()
    path.write_text("vse_pipe.train.losses.sum 0\n", encoding="utf-8")
    assert check([]).problems == []
    text = Path("dvc.yaml").read_text(encoding="utf-8")
    line = '"data/code/inject/${key}", '
    assert text.count(line) == 1
    Path("dvc.yaml").write_text(text.replace(line, ""), encoding="utf-8")
    found = [problem.line for problem in check([]).problems if problem.status == 2]
    told = "is no dependency; `vse-pipe init --upgrade` writes dvc.yaml anew"
    assert found == [
        f"dvc.yaml inject@{name}: data/code/inject/{name}, which lists the code that it runs, {told}"
        for name in ("clean", "half")
    ]


def test_what_was_found_is_kept_until_a_module_or_the_parameters_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, params = Path("package/core/files.py"), Path("params.yaml")
    module.parent.mkdir(parents=True)
    module.write_text("one = 1\n")
    params.write_text("seed: 1\n")
    monkeypatch.setattr(vse_pipe, "__file__", str(tmp_path / "package" / "__init__.py"))
    calls = []

    def finds(overrides: list[str] = []) -> bool:  # noqa: B006 (nobody changes it)
        before = len(calls)
        sources.write_code(overrides, lambda: calls.append(1) or {"train@max": str(len(calls)), "report": "r 1"})
        assert Path("data/code/train/max").read_text() == f"{len(calls)}\n"
        return len(calls) > before

    assert finds()
    assert finds()  # without .dvc there is no place to keep it
    Path(".dvc").mkdir()
    assert finds()
    assert not finds()
    assert finds(["seed=2"])
    assert finds()
    params.write_text("seed: 2\n")
    assert finds()
    os.utime(module, ns=(1, 1))
    assert finds()
    module.with_name("new.py").touch()
    assert finds()
    assert not finds()
    sources.CODE_CACHE.write_text("{")
    assert finds()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_digests_and_places_are_those_of_dvc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repo = Repo.init(".", no_scm=True)
    folder = tmp_path / "out"
    (folder / "a").mkdir(parents=True)
    for name, text in [("b.txt", "one\r\n"), ("a/c.txt", "two"), ("a-b", "three"), ("ünï", "4")]:
        (folder / name).write_text(text, encoding="utf-8")
    (tmp_path / ".dvcignore").write_text("*.pyc\n__pycache__\n", encoding="utf-8")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("x", encoding="utf-8")
    (stage,) = repo.add(str(folder))
    repo.close()
    digest = stage.outs[0].hash_info.value
    assert code.md5(Path("out")) == digest
    assert code.cache_object(digest).is_file()
    found = Lock({}).files(code.Recorded("x", "out", digest))
    assert found == code.files_below(Path("out"))
    assert all(code.md5(code.cache_object(one)) == one for one in found.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[core]\n    analytics = false\n", ".dvc/cache"),
        ("[cache]\n    dir = ../elsewhere\n", ".dvc/../elsewhere"),
        ("['cache']\n    dir = /far\n", "/far"),
    ],
)
def test_the_cache_lies_where_the_configuration_says(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text(text, encoding="utf-8")
    assert code.cache_folder() == Path(expected)


def test_what_has_changed_since_dvc_ran_makes_an_output_stale(made):
    record()
    assert check([]).problems == []
    found = Lock(read_document(Path("params.yaml")))
    assert all(found.changed(stage) == [] for stage in found.stages)
    assert Lock({"seed": 4}).changed("inject@clean") == ["params.yaml seed", "params.yaml noises.clean"]
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(text.replace("resamples: 10", "resamples: 20"), encoding="utf-8")
    (found,) = check([]).problems
    assert found.line == "data/evaluate/sum: stale: params.yaml evaluate changed since; run `dvc repro evaluate@sum`"
    assert found.status == 5


def test_an_output_made_from_an_earlier_output_is_stale(made):
    record()
    document = Path("dvc.lock").read_text(encoding="utf-8")
    digest = code.md5(Path("data/embed/sum"))
    assert document.count(digest) == 2
    # As DVC leaves it when embed ran again and evaluate did not.
    head, _, tail = document.rpartition(digest)
    Path("dvc.lock").write_text(head + "0" * 32 + ".dir" + tail, encoding="utf-8")
    (found,) = check([]).problems
    assert found.line.startswith("data/evaluate/sum: stale: data/embed/sum changed since")


def test_a_lock_file_that_is_no_yaml_is_a_problem(made):
    Path("dvc.lock").write_text("stages: [", encoding="utf-8")
    (found,) = check([]).problems
    assert (found.status, found.address) == (3, "dvc.lock")


@pytest.mark.parametrize("text", ["stages: []", "stages: {a: {outs: }}", "stages: {a: {deps: [{path: 3}]}}"])
def test_a_lock_file_that_dvc_did_not_write_is_named(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text(text)
    with pytest.raises(ParamsError, match=r"dvc\.lock stages.*; `git checkout dvc.lock` brings back"):
        Lock({})
