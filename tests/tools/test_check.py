"""`vse-pipe check`: artefacts, dvc.yaml, dvc.lock and the lists of code, against each other and params.yaml."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

from tests import templates
from tests.command_line import caller, json_document
from tests.made import record
from tests.rules.sources import ROOT
from tests.sealed import made_anew
from vse_pipe.commands import _project
from vse_pipe.commands import project as command
from vse_pipe.project import code, paths
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import LOSSES
from vse_pipe.project.stages import declarations
from vse_pipe.tools.check import ARTEFACT, DIGEST, NOTE, PARAMS, check
from vse_pipe.train.stage import train


def _edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def _train(override: str) -> None:
    train(load(Path("params.yaml"), [override]), "sum", "cpu")


WORDS = Path("data/extract/toy/words")
PREPARED, TRAIN, EMBED = "data/prepare/toy", "data/train/sum", "data/embed/sum"
# What is done to the project, the status, and parts of the address and of the line.
FAULTS = [
    (lambda: _edit("params.yaml", "epochs", "epoch"), PARAMS, "params.yaml train.epoch", "unknown key"),
    (lambda: made_anew(Path(PREPARED), captions="0"), DIGEST, str(WORDS), "made from other captions"),
    (lambda: made_anew(WORDS, texts="0"), DIGEST, TRAIN, "made from other texts than data/extract/toy/words now holds"),
    # Trained with another rate on the command line.
    (lambda: _train("train.lr=0.02"), DIGEST, EMBED, "other weights than data/train/sum now holds; run `vse-pipe em"),
    (
        lambda: made_anew(Path(EMBED), vectors="0"),
        DIGEST,
        "data/evaluate/sum",
        "run `vse-pipe evaluate --run sum` again",
    ),
    (lambda: Path(EMBED, "made_from.json").write_text("["), ARTEFACT, EMBED, "not a JSON document"),
]


@pytest.mark.parametrize(("damage", "status", "address", "what"), FAULTS)
def test_a_fault_is_named_with_its_address_and_status(made, damage, status, address, what):
    damage()
    problems = check([]).problems
    found = [one.status for one in problems if address in one.address and what in one.line]
    assert found == [status], [one.line for one in problems]


@pytest.fixture
def call(made, monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def test_all_is_well_and_what_has_not_been_made_is_no_problem(call, made):
    assert call("check") == (0, "", "check: 8 of 8 artefacts are there; no problems\n")
    told = {"ok": True, "status": 0, "artefacts": 8, "absent": [], "problems": [], "notes": []}
    assert json_document(call, "check", "--json") == told
    shutil.rmtree("data/evaluate")
    shutil.rmtree("data/embed")
    found = check([])
    assert (found.problems, found.artefacts, len(found.absent)) == ([], 6, 2)
    assert call("check")[2] == f"check: 6 of 8 artefacts are there, not {', '.join(found.absent)}; no problems\n"


def test_a_line_a_problem_and_the_lowest_status(call, monkeypatch):
    made_anew(Path(PREPARED), captions="0")
    Path(EMBED, "made_from.json").write_text("[]", encoding="utf-8")
    monkeypatch.chdir("data")
    status, out, err = call("check")
    lines = out.splitlines()
    assert (status, len(lines)) == (3, 4), lines
    assert sum(line.startswith("digest   ") for line in lines) == 3
    assert sum(line.startswith("artefact data/embed/sum/made_from.json: ") for line in lines) == 1
    assert err == "check: 8 of 8 artefacts are there; 4 problems\n"
    found = json.loads(call("check", "--json")[1])
    assert ({problem["status"] for problem in found["problems"]}, found["ok"], found["status"]) == ({3, 5}, False, 3)


def test_values_of_set_count(call):
    status, out, _ = call("-S", "train.epochs=ten", "check")
    assert (status, out.startswith("params   params.yaml train.epochs: ")) == (2, True)


EDITS = [
    ("foreach: ${runs}", "foreach: ${losses}", "Could not find 'losses'"),
    ('outs: ["data/embed/${key}"]', 'outs: ["data/embedded/${key}"]', "dvc.yaml embed@sum: does not write data/embed"),
    ("${cli} embed --run ${key}", "${cli} embed", "expected `vse-pipe embed --run sum`"),
]


@pytest.mark.parametrize(("old", "new", "text"), EDITS, ids=[old.strip() for old, _, _ in EDITS])
def test_an_edit_of_dvc_yaml_that_breaks_it_is_named(made, old, new, text):
    content = Path("dvc.yaml").read_text(encoding="utf-8")
    assert old in content
    Path("dvc.yaml").write_text(content.replace(old, new, 1), encoding="utf-8")
    found = [problem.line for problem in check([]).problems if problem.status == PARAMS]
    assert any(text in line for line in found), found


def test_without_a_repository_of_dvc_the_artefacts_alone_are_compared(made):
    shutil.rmtree(".dvc")
    (found,) = check([]).problems
    assert (found.status, "no DVC repository" in found.line) == (NOTE, True)


def _replaced(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert text.count(old) == 1
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def listed_once(_made_once, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("listed") / "project"
    shutil.copytree(_made_once, root)
    with contextlib.chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_project, "overrides", [])
        Path("pipeline").rmdir()
        Path("dvc.yaml").write_text(templates.stages_text(), encoding="utf-8")
        command.code()
        record()
    return root


@pytest.fixture
def listed(listed_once, tmp_path, monkeypatch) -> Path:
    """A copy of the project as `vse-pipe init` makes them, run by DVC; the working directory."""
    monkeypatch.setattr(_project, "overrides", [])
    monkeypatch.chdir(shutil.copytree(listed_once, tmp_path / "project"))
    return tmp_path / "project"


def test_each_stage_has_a_list_of_what_it_runs_and_entries_that_go_take_theirs_along(listed):
    params = load(Path("params.yaml"))
    found = {str(path.relative_to(paths.CODE)) for path in paths.CODE.rglob("*") if path.is_file()}
    assert {"inject/clean", "inject/half", "train/sum", "evaluate/sum", "report"} <= found
    train, text = declarations()["train"], (paths.CODE / "train" / "sum").read_text(encoding="utf-8")
    members = train.members(params, "sum")
    assert text == code.listing(code.needed(train, members) | code.defaults(train, members)) + "\n"
    assert "vse_pipe.train.losses.sum " in text
    assert "vse_pipe.train.losses.max" not in text
    _replaced("params.yaml", re.search(r"  half:\n(    .*\n)+", Path("params.yaml").read_text(encoding="utf-8"))[0], "")
    command.code()
    assert [(paths.CODE / "inject" / name).is_file() for name in ("clean", "half")] == [True, False]


def test_a_module_that_changed_makes_stale_what_runs_it(listed, tmp_path, monkeypatch):
    assert check([]).problems == []
    module = LOSSES.module("sum")
    newer, own = tmp_path / "newer.py", code.file
    newer.write_bytes(own(module).read_bytes() + b"# a comment\n")
    monkeypatch.setattr(code, "file", lambda name: newer if name == module else own(name))
    (found,) = check([]).problems
    assert found.line == "data/train/sum: stale: data/code/train/sum changed since; run `dvc repro train@sum`"


def test_what_has_changed_since_dvc_ran_makes_an_output_stale(made):
    record()
    assert check([]).problems == []
    _replaced("params.yaml", "resamples: 10", "resamples: 20")
    wanted = "data/evaluate/sum: stale: params.yaml evaluate changed since; run `dvc repro evaluate@sum`"
    assert [(one.line, one.status) for one in check([]).problems] == [(wanted, 5)]
    Path("dvc.lock").write_text("stages: [", encoding="utf-8")
    assert [(one.status, one.address) for one in check([]).problems] == [(2, "dvc.yaml")]


def test_what_is_missing_to_make_the_rest_is_noted_before_hours_of_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("vse_pipe.tools.check._is_installed", lambda package: not package.startswith("sentence-"))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    overlays.apply(Path("params.yaml"), "strong", [])

    def notes(*overrides: str) -> str:
        checked = check(list(overrides))
        assert {problem.status for problem in checked.problems} <= {NOTE, PARAMS}
        return "\n".join(problem.line for problem in checked.problems if problem.status == NOTE)

    found = notes()
    assert "params.yaml datasets.mine: photos is not there" in found
    assert "sentence-transformers; pip install sentence-transformers" in found
    assert "revision 8b3219a92973c328a8e22fadcfa821b5dc75636a" in found
    assert f"{tmp_path}/own.pth is not there" in notes(f"features.main.weights={tmp_path}/own.pth")
    assert "features.main" not in found
