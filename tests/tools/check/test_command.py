"""`vse-pipe check` on the command line: its lines and its exit status."""

import json
from pathlib import Path

import pytest

from tests.command_line import caller
from tests.made import record


@pytest.fixture
def call(made, monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def test_all_is_well(call):
    assert call("check") == (0, "", "check: 8 of 8 artefacts are there; no problems\n")
    status, out, err = call("check", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"ok": True, "status": 0, "artefacts": 8, "named": 8, "problems": [], "notes": []}


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
