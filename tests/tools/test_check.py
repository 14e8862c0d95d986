"""`vse-pipe check`: artefacts, dvc.yaml, dvc.lock and the lists of code, against each other and params.yaml."""

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dvc.repo import Repo

from tests.command_line import caller, json_document
from tests.made import record
from tests.rules.sources import ROOT
from vse_pipe.commands import _project
from vse_pipe.commands import project as command
from vse_pipe.core.errors import ParamsError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import code, paths, sources
from vse_pipe.project.code import Lock
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import LOSSES
from vse_pipe.project.stages import ARTEFACT, DIGEST, NOTE, PARAMS, Problem, declarations, exit_status
from vse_pipe.tools import missing
from vse_pipe.tools.check import check, dvc_yaml_problems
from vse_pipe.tools.init import stage
from vse_pipe.train.stage import train


def _json(path: Path, **changes: object) -> None:
    write_json(path, {**read_json(path), **changes})


def _without_last(path: str) -> None:
    pq.write_table(pq.read_table(path)[:-1], path)


def _say(path: str, **about: str) -> None:
    """Write into the metadata of a table."""
    table = pq.read_table(path)
    added = {key.encode(): value.encode() for key, value in about.items()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **added}), path)


def _cut(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


def _edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def _train(override: str) -> None:
    train(load(Path("params.yaml"), [override]), "sum", "cpu")


def _say_of_both(**about: str) -> None:
    for side in ("images", "captions"):
        _say(f"data/embed/sum/{side}.parquet", **about)


PLAIN, WORDS, CONFIG = map(Path, ("data/extract/toy/plain", "data/extract/toy/words", "data/train/sum/config.json"))
PREPARED, TRAIN, EMBED = "data/prepare/toy", "data/train/sum", "data/embed/sum"
PAIRS, READ, METRICS = (
    "data/inject/toy/clean/pairs.parquet",
    f"{EMBED}/captions.parquet",
    "data/evaluate/sum/csls/metrics.json",
)
IMAGES = "other images than there are now; run `dvc repro extract@plain`"
SIDES = "images.parquet and captions.parquet name different values of similarity"
# What is done to the project, the status, and parts of the address and of the line.
FAULTS = [
    (lambda: _edit("params.yaml", "epochs", "epoch"), PARAMS, "params.yaml train.epoch", "did you mean"),
    (lambda: Path(PREPARED, "captions.parquet").unlink(), ARTEFACT, "captions.parquet", "not exist"),
    (lambda: _cut(f"{PREPARED}/images.parquet"), DIGEST, "images.parquet", "damaged Parquet"),
    (lambda: _json(WORDS / "meta.json", kind="x"), ARTEFACT, "meta.json", "no text"),
    (lambda: _without_last(f"{PREPARED}/captions.parquet"), DIGEST, str(WORDS), "made from other captions"),
    (lambda: _json(PLAIN / "meta.json", images_sha256="0"), DIGEST, str(PLAIN), IMAGES),
    (lambda: _say(PAIRS, note="x"), DIGEST, TRAIN, "made from other pairs"),
    (lambda: _json(PLAIN / "meta.json", sha256="0" * 64), DIGEST, TRAIN, "made from other features than there are now"),
    # Trained with another rate on the command line.
    (lambda: _train("train.lr=0.02"), DIGEST, EMBED, "than there are now; run `dvc repro em"),
    (lambda: _json(CONFIG, sha256={"model.safetensors": "0" * 64}), DIGEST, EMBED, "made from other weights"),
    (lambda: _say(f"{EMBED}/images.parquet", similarity="order"), ARTEFACT, EMBED, SIDES),
    (lambda: _say_of_both(run="max"), ARTEFACT, EMBED, "embeddings of run 'max', expected 'sum'"),
    (lambda: _cut(READ), DIGEST, READ, "damaged Parquet file"),
    (
        lambda: _say_of_both(note="x"),
        DIGEST,
        "data/evaluate/sum",
        "other embeddings than there are now; run `dvc repro",
    ),
    (lambda: _cut(METRICS), ARTEFACT, METRICS, "not a JSON document"),
]


@pytest.mark.parametrize(("damage", "status", "address", "what"), FAULTS)
def test_a_fault_is_named_with_its_address_and_status(made, damage, status, address, what):
    damage()
    problems = check([]).problems
    found = [one.status for one in problems if address in one.address and what in one.line]
    assert found == [status], [one.line for one in problems]


def test_the_lowest_status_decides():
    def of(*statuses: int) -> int:
        return exit_status([Problem(status, "x", "y") for status in statuses])

    assert (of(), of(NOTE), of(DIGEST, ARTEFACT), of(DIGEST, NOTE), of(ARTEFACT, PARAMS)) == (0, 0, 3, 5, 2)


@pytest.fixture
def call(made, monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def test_all_is_well_and_what_has_not_been_made_is_no_problem(call, made):
    assert call("check") == (0, "", "check: 8 of 8 artefacts are there; no problems\n")
    told = {"ok": True, "status": 0, "artefacts": 8, "named": 8, "problems": [], "notes": []}
    assert json_document(call, "check", "--json") == told
    shutil.rmtree("data/evaluate")
    shutil.rmtree("data/embed")
    found = check([])
    assert (found.problems, found.artefacts) == ([], 6)


def test_a_line_a_problem_and_the_lowest_status(call, monkeypatch):
    (Path("data/train/sum/config.json")).write_text("{}", encoding="utf-8")
    Path("data/evaluate/sum/nns/metrics.json").write_text("[]", encoding="utf-8")
    monkeypatch.chdir("data")
    status, out, err = call("check")
    lines = out.splitlines()
    assert (status, lines[0]) == (3, "digest   data/train/sum/config.json: holds no digests; train the run again")
    assert lines[1].startswith("artefact data/evaluate/sum/nns/metrics.json: the JSON document is a list")
    assert (len(lines), err) == (2, "check: 8 of 8 artefacts are there; 2 problems\n")
    found = json.loads(call("check", "--json")[1])
    assert ([problem["status"] for problem in found["problems"]], found["ok"], found["status"]) == ([5, 3], False, 3)


def test_a_note_is_no_problem(call):
    Path("data/train/sum/model.safetensors").unlink()
    status, out, err = call("check")
    assert (status, out.startswith("note     data/train/sum: training has not ended; ")) == (0, True)
    assert err == "check: 8 of 8 artefacts are there; no problems, 1 note\n"
    assert [note["address"] for note in json_document(call, "check", "--json")["notes"]] == ["data/train/sum"]


def test_values_of_set_count(call):
    status, out, _ = call("-S", "train.epochs=ten", "check")
    assert (status, out.startswith("params   params.yaml train.epochs: ")) == (2, True)
    record()
    status, out, _ = call("-S", "train.embed_size=5", "check")
    assert (status, "data/train/sum: stale: params.yaml train changed since" in out) == (5, True)


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


INJECT, ADD = "dvc.yaml inject@clean: data/sources/inject/clean, which lists", "is no dependency; add "
ADD += "`- data/sources/inject/clean` to its deps"
EDITS = [
    ('"data/sources/inject/${key}"', '"data/inject"', f"{INJECT} the files from outside that it reads, {ADD}"),
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


def _replaced(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert text.count(old) == 1
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def test_without_it_and_with_another_kind_of_file(made):
    Path("dvc.yaml").write_text("stages: []\n", encoding="utf-8")
    assert _problems() == ["dvc.yaml: has no section stages"]
    Path("dvc.yaml").unlink()
    assert _problems() == ["dvc.yaml: does not exist; `git checkout dvc.yaml` brings it back"]


def test_code_that_no_dependency_covers_is_named(tmp_path, monkeypatch):
    """With the source tree there, as in this repository: an import that dvc.yaml does not list, and a run's own loss."""
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    _replaced("dvc.yaml", "        - pipeline/vse_pipe/train\n", "")
    for folder in ("audit", "localize"):
        Path("data", folder).mkdir(parents=True)
    found, file = _problems(), "pipeline/vse_pipe/train/samplers/captions.py"
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
    assert found.line == f"data/train/sum: stale: {module} changed since; run `dvc repro train@sum`"
    newer.unlink()
    assert [one.line for one in check([]).problems] == [found.line]


def test_a_list_that_is_nowhere_says_nothing_and_a_stage_that_watches_none_is_named(listed):
    path = paths.CODE / "train" / "sum"
    code.cache_object(code.md5(path)).unlink()
    path.write_text("vse_pipe.train.losses.sum 0\n", encoding="utf-8")
    assert check([]).problems == []
    _replaced("dvc.yaml", '"data/code/inject/${key}", ', "")
    found = [problem.line for problem in check([]).problems if problem.status == 2]
    lists, told = (
        "which lists the code that it runs",
        "is no dependency; `vse-pipe init --upgrade` writes dvc.yaml anew",
    )
    assert found == [f"dvc.yaml inject@{name}: data/code/inject/{name}, {lists}, {told}" for name in ("clean", "half")]


def test_what_was_found_is_kept_until_a_module_or_the_parameters_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, params = Path("package/core/files.py"), Path("params.yaml")
    module.parent.mkdir(parents=True)
    module.write_text("one = 1\n")
    params.write_text("seed: 1\n")
    monkeypatch.setattr(sources, "__file__", str(tmp_path / "package/project/sources.py"))
    calls = []

    def finds(*overrides: str) -> bool:
        before = len(calls)
        made = {"train@max": lambda: str(len(calls)), "report": lambda: "r 1"}
        sources.write_code([*overrides], lambda: calls.append(1) or {name: text() for name, text in made.items()})
        assert Path("data/code/train/max").read_text() == f"{len(calls)}\n"
        return len(calls) > before

    assert [finds(), finds()] == [True, True]  # without .dvc there is no place to keep it
    Path(".dvc").mkdir()
    assert [finds(), finds(), finds("seed=2"), finds()] == [True, False, True, True]
    params.write_text("seed: 2\n")
    assert finds()
    os.utime(module, ns=(1, 1))
    assert finds()
    module.with_name("new.py").touch()
    assert [finds(), finds()] == [True, False]
    sources.CODE_CACHE.write_text("{")
    assert finds()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_digests_and_places_are_those_of_dvc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repo, folder = Repo.init(".", no_scm=True), tmp_path / "out"
    files = {"b.txt": "one\r\n", "a/c.txt": "two", "a-b": "three", "ünï": "4", "__pycache__/x.pyc": "x"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (tmp_path / ".dvcignore").write_text("*.pyc\n__pycache__\n", encoding="utf-8")
    (stage,) = repo.add(str(folder))
    repo.close()
    digest = stage.outs[0].hash_info.value
    assert (code.md5(Path("out")), code.cache_object(digest).is_file()) == (digest, True)
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


RESAMPLES = "data/evaluate/sum: stale: params.yaml evaluate changed since; run `dvc repro evaluate@sum`"


def test_what_has_changed_since_dvc_ran_makes_an_output_stale(made):
    record()
    assert check([]).problems == []
    found = Lock(read_document(Path("params.yaml")))
    assert all(found.changed(stage) == [] for stage in found.stages)
    assert Lock({"seed": 4}).changed("inject@clean") == ["params.yaml seed", "params.yaml noises.clean"]
    _replaced("params.yaml", "resamples: 10", "resamples: 20")
    assert [(one.line, one.status) for one in check([]).problems] == [(RESAMPLES, 5)]
    _replaced("params.yaml", "resamples: 20", "resamples: 10")
    # As DVC leaves it when embed ran again and evaluate did not.
    document, digest = Path("dvc.lock").read_text(encoding="utf-8"), code.md5(Path("data/embed/sum"))
    assert document.count(digest) == 2
    head, _, tail = document.rpartition(digest)
    Path("dvc.lock").write_text(head + "0" * 32 + ".dir" + tail, encoding="utf-8")
    (found,) = check([]).problems
    assert found.line.startswith("data/evaluate/sum: stale: data/embed/sum changed since")
    Path("dvc.lock").write_text("stages: [", encoding="utf-8")
    assert [(one.status, one.address) for one in check([]).problems] == [(3, "dvc.lock")]


@pytest.mark.parametrize("text", ["stages: []", "stages: {a: {outs: }}", "stages: {a: {deps: [{path: 3}]}}"])
def test_a_lock_file_that_dvc_did_not_write_is_named(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text(text)
    with pytest.raises(ParamsError, match=r"dvc\.lock stages.*; `git checkout dvc.lock` brings back"):
        Lock({})


def test_what_is_missing_to_make_the_rest_is_noted_before_hours_of_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(missing, "_is_installed", lambda package: not package.startswith("sentence-"))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    overlays.apply(Path("params.yaml"), "strong", [])

    def notes(*overrides: str) -> str:
        checked = check(list(overrides))
        assert {problem.status for problem in checked.problems} <= {NOTE, PARAMS}
        return "\n".join(problem.line for problem in checked.problems if problem.status == NOTE)

    found = notes()
    assert "params.yaml datasets.mine: photos is not there" in found
    assert "resnet152-f82ba261.pth" in found
    assert "sha256 begins with f82ba261" in found
    assert "sentence-transformers; pip install 'sentence-transformers>=" in found
    assert "revision 8b3219a92973c328a8e22fadcfa821b5dc75636a" in found
    whole = "f82ba261" * 8
    assert f"(sha256 {whole})" in notes(f"features.main.sha256={whole}")
    assert f"{tmp_path}/own.pth: no such weights file" in notes(f"features.main.weights={tmp_path}/own.pth")
    Path("weights").mkdir()
    Path("weights/resnet152-f82ba261.pth").touch()
    assert "features.main" not in notes()
