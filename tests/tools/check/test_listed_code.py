"""A project without code: stages watch lists of the modules that they run, and `check` knows when one has changed."""

import os
import re
from pathlib import Path

import pytest

import vse_pipe
from tests.made import record
from vse_pipe.commands import _project
from vse_pipe.commands import project as command
from vse_pipe.project import code, lock, paths
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import LOSSES
from vse_pipe.project.stages import declarations
from vse_pipe.tools import lists
from vse_pipe.tools.check import check
from vse_pipe.tools.init import stage


@pytest.fixture
def listed(made, monkeypatch):
    """The project as `vse-pipe init` makes them, run by DVC."""
    monkeypatch.setattr(_project, "overrides", [])
    Path("pipeline").rmdir()
    Path("dvc.yaml").write_text(stage.stages_text(), encoding="utf-8")
    command.code()
    record()
    return made


def test_each_stage_has_a_list_of_what_it_runs(listed):
    params = load(Path("params.yaml"))
    found = {str(path.relative_to(paths.CODE)) for path in paths.CODE.rglob("*") if path.is_file()}
    assert {"inject/clean", "inject/half", "train/sum", "evaluate/sum", "report"} <= found
    train = declarations()["train"]
    text = (paths.CODE / "train" / "sum").read_text(encoding="utf-8")
    members = train.members(params, "sum")
    assert text == code.listing(code.needed(train, members) | code.defaults(train, members)) + "\n"
    assert "vse_pipe.train.losses.sum " in text
    assert "vse_pipe.train.losses.max" not in text


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


def test_a_list_that_is_nowhere_any_more_says_nothing(listed):
    path = paths.CODE / "train" / "sum"
    lock.cached(lock.md5(path)).unlink()
    path.write_text("vse_pipe.train.losses.sum 0\n", encoding="utf-8")
    assert check([]).problems == []


def test_a_stage_that_watches_no_list_is_named(listed):
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


def test_entries_that_go_take_their_lists_along(listed):
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(re.sub(r"  half:\n(    .*\n)+", "", text), encoding="utf-8")
    command.code()
    assert (paths.CODE / "inject" / "clean").is_file()
    assert not (paths.CODE / "inject" / "half").exists()


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
        lists.write_code(overrides, lambda: calls.append(1) or {"train@max": str(len(calls)), "report": "r 1"})
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
    lists.CODE_CACHE.write_text("{")
    assert finds()
