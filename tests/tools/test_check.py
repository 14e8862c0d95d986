"""`vse-pipe check`: artefacts against each other; each fault is planted in a project that is well."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import caller
from tests.made import record
from vse_pipe.artifacts import captions
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.stages import ARTEFACT, DIGEST, NOTE, PARAMS, Problem, exit_status
from vse_pipe.tools.check import check
from vse_pipe.train.stage import train


def _json(path: Path, **changes: object) -> None:
    write_json(path, {**read_json(path), **changes})


def _without_last(folder: Path, module) -> None:
    table = pq.read_table(folder / module.NAME)
    pq.write_table(table.slice(0, table.num_rows - 1), folder / module.NAME)


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


PLAIN, WORDS, CONFIG = (
    Path(f"data/{name}") for name in ("extract/toy/plain", "extract/toy/words", "train/sum/config.json")
)
FAULTS: dict[str, Callable[[], None]] = {
    "params": lambda: _edit("params.yaml", "epochs", "epoch"),
    "no captions": lambda: Path("data/prepare/toy/captions.parquet").unlink(),
    "cut table": lambda: _cut("data/prepare/toy/images.parquet"),
    "meta": lambda: _json(WORDS / "meta.json", kind="x"),
    "other captions": lambda: _without_last(paths.prepared("toy"), captions),
    "features of other images": lambda: _json(PLAIN / "meta.json", images_sha256="0" * 64),
    "other pairs": lambda: _say("data/inject/toy/clean/pairs.parquet", note="x"),
    "other features": lambda: _json(PLAIN / "meta.json", sha256="0" * 64),
    "trained with another rate on the command line": lambda: _train("train.lr=0.02"),
    "embedded by another model": lambda: _json(CONFIG, sha256={"model.safetensors": "0" * 64}),
    "sides of two models": lambda: _say("data/embed/sum/images.parquet", similarity="order"),
    "embeddings of another run": lambda: _say_of_both(run="max"),
    "cut embeddings": lambda: _cut("data/embed/sum/captions.parquet"),
    "evaluated on other embeddings": lambda: _say_of_both(note="x"),
    "metrics that are no JSON": lambda: _cut("data/evaluate/sum/csls/metrics.json"),
}
NAMES = "images.parquet and captions.parquet name different values of similarity"
NAMED = {
    "params": (PARAMS, "params.yaml train.epoch", "did you mean"),
    "no captions": (ARTEFACT, "captions.parquet", "not exist"),
    "cut table": (DIGEST, "images.parquet", "damaged Parquet"),
    "meta": (ARTEFACT, "meta.json", "no text"),
    "other captions": (DIGEST, str(WORDS), "made from other captions"),
    "features of other images": (DIGEST, str(PLAIN), "other images than there are now; run `dvc repro extract@plain`"),
    "other pairs": (DIGEST, "data/train/sum", "made from other pairs"),
    "other features": (DIGEST, "data/train/sum", "made from other features than there are now"),
    "trained with another rate on the command line": (
        DIGEST,
        "data/embed/sum",
        "than there are now; run `dvc repro em",
    ),
    "embedded by another model": (DIGEST, "data/embed/sum", "made from other weights"),
    "sides of two models": (ARTEFACT, "data/embed/sum", NAMES),
    "embeddings of another run": (ARTEFACT, "data/embed/sum", "embeddings of run 'max', expected 'sum'"),
    "cut embeddings": (DIGEST, "data/embed/sum/captions.parquet", "damaged Parquet file"),
    "evaluated on other embeddings": (
        DIGEST,
        "data/evaluate/sum",
        "other embeddings than there are now; run `dvc repro",
    ),
    "metrics that are no JSON": (ARTEFACT, "data/evaluate/sum/csls/metrics.json", "not a JSON document"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_address_and_status(made, fault):
    status, address, what = NAMED[fault]
    FAULTS[fault]()
    found = [problem for problem in check([]).problems if address in problem.address and what in problem.line]
    assert [problem.status for problem in found] == [status], [problem.line for problem in check([]).problems]


def test_the_lowest_status_decides():
    def of(*statuses: int) -> int:
        return exit_status([Problem(status, "x", "y") for status in statuses])

    assert (of(), of(NOTE), of(DIGEST, ARTEFACT), of(DIGEST, NOTE), of(ARTEFACT, PARAMS)) == (0, 0, 3, 5, 2)


@pytest.fixture
def call(made, monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def test_all_is_well_and_what_has_not_been_made_is_no_problem(call, made):
    assert call("check") == (0, "", "check: 8 of 8 artefacts are there; no problems\n")
    status, out, err = call("check", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"ok": True, "status": 0, "artefacts": 8, "named": 8, "problems": [], "notes": []}
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
    assert status == 3
    assert lines[0] == "digest   data/train/sum/config.json: holds no digests; train the run again"
    assert lines[1].startswith("artefact data/evaluate/sum/nns/metrics.json: the JSON document is a list")
    assert len(lines) == 2
    assert err == "check: 8 of 8 artefacts are there; 2 problems\n"
    found = json.loads(call("check", "--json")[1])
    assert [problem["status"] for problem in found["problems"]] == [5, 3]
    assert (found["ok"], found["status"]) == (False, 3)


def test_a_note_is_no_problem(call):
    Path("data/train/sum/model.safetensors").unlink()
    status, out, err = call("check")
    assert (status, out.startswith("note     data/train/sum: training has not ended; ")) == (0, True)
    assert err == "check: 8 of 8 artefacts are there; no problems, 1 note\n"
    assert [note["address"] for note in json.loads(call("check", "--json")[1])["notes"]] == ["data/train/sum"]


def test_values_of_set_count(call):
    status, out, _ = call("-S", "train.epochs=ten", "check")
    assert status == 2
    assert out.startswith("params   params.yaml train.epochs: ")
    record()
    status, out, _ = call("-S", "train.embed_size=5", "check")
    assert status == 5
    assert "data/train/sum: stale: params.yaml train changed since" in out
