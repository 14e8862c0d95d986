"""Decisions of several people on one file: what holds, what they agree on, and what the program decides."""

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.audit.review.project import opened, post, rows_of, started, write_findings
from tests.command_line import caller, failure, json_document, output
from tests.sealed import sealed
from vse_pipe.artifacts import captions, images
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths

PATH = Path("decisions.csv")


def verdicts(desk, person: str) -> dict[str, str]:
    answers = desk.verdicts().of_person(person)
    return answers[answers != ""].to_dict()


def test_each_person_has_the_last_decision_and_the_file_is_read_anew(project):
    desk = opened()
    desk.record(["pair/0"], "take", "anna")
    desk.record(["pair/2"], "take", "anna")  # the proposal is to drop
    opened().record(["pair/0"], "drop", "ben")
    assert (verdicts(desk, "anna"), verdicts(desk, "ben")) == (
        {"pair/0": "take", "pair/2": "drop"},
        {"pair/0": "drop"},
    )
    # An editor replaced the file.
    PATH.write_text("".join(PATH.read_text().splitlines(keepends=True)[:2]))
    assert (verdicts(desk, "anna"), verdicts(desk, "ben")) == ({"pair/0": "take"}, {})
    with PATH.open("a") as file:
        file.write("garbage,row\n")
    with pytest.raises(InputError, match=r"decisions\.csv: .*Row #3: Expected 15 columns, got 2"):
        desk.verdicts()
    PATH.unlink()
    assert verdicts(desk, "anna") == {}


def test_decisions_on_another_picture_or_caption_do_not_count_and_are_told(project, capsys):
    desk = opened()
    desk.record(["pair/0", "pair/1", "caption/3"], "keep", "anna")
    desk.record(["duplicate/47", "leak/57"], "take", "anna")
    folder = paths.prepared("toy")
    pictures, sentences = images.read(folder), captions.read(folder)
    digests = [f"new {row}" if row in (0, 1) else digest for row, digest in enumerate(pictures["sha256"].to_pylist())]
    texts = ["new" if row == 3 else text for row, text in enumerate(sentences["text"].to_pylist())]
    images.write(folder, pictures.set_column(5, "sha256", pa.array(digests)), "photos")
    captions.write(folder, sentences.set_column(2, "text", pa.array(texts)))
    sealed(folder)
    capsys.readouterr()
    # An audit of the new tables finds the same.
    write_findings()
    again = opened()
    assert verdicts(again, "anna") == {}
    told = " ".join(capsys.readouterr().err.split())
    assert "not applied, because their picture or caption is another one now: 5 (" in told
    again.record(["pair/0"], "drop", "ben")
    assert verdicts(opened(), "ben") == {"pair/0": "drop"}
    assert "another one now: 4 (" in " ".join(capsys.readouterr().err.split())


def test_auto_takes_sure_proposals_that_nobody_decided(project, monkeypatch, capsys):
    desk = opened()
    desk.record(["duplicate/27", "leak/57"], "keep", "anna")
    desk.record(["leak/57"], "undo", "anna")
    call = caller(monkeypatch, capsys, "review", "--dataset", "toy", "--auto", "0.9")
    aside = json_document(call, "--decisions", "aside.csv", "--kind", "leak", "--kind", "picture", "--json")["decided"]
    assert (aside["leak"], sum(aside.values())) == (1, 1)
    out, _ = output(call)
    assert out.splitlines() == [
        "pair: 1 dropped",
        "caption: 1 taken",
        "picture: 0 taken",
        "duplicate: 0 taken",
        "duplicate_caption: 0 taken",
        "leak: 1 taken",
    ]
    automatic = [row for row in rows_of(PATH) if row[2] == "auto 0.9"]
    drops = [(name, "drop", "auto 0.9") for name in ("pair/0", "caption/3")]
    assert automatic == [drops[0], ("leak/57", "take", "auto 0.9"), drops[1]]
    size = PATH.stat().st_size
    assert sum(json_document(call, "--json")["decided"].values()) == 0
    assert PATH.stat().st_size == size
    assert sorted(opened().verdicts().standing) == [""] * 5 + ["drop", "drop", "keep", "take"]


WRONG = [
    (2, ("--by", "auto 0.9"), "--by 'auto 0.9': expected a name of 1 to 60 letters that is not auto"),
    (3, ("--noise", "clean"), "data/audit/datasets/toy/clean/findings.csv does not exist; make it with `vse-pipe audit --dataset toy --noise clean` or `dvc repro`"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "arguments", "message"), WRONG)
def test_wrong_calls_are_one_line(project, monkeypatch, capsys, status, arguments, message):
    call = caller(monkeypatch, capsys, "review", "--dataset", "toy")
    assert failure(call, status, *arguments) == f"error: {message}\n"


def test_findings_that_no_longer_exist_are_left_out_and_said(project, capsys):
    path = Path("data/audit/datasets/toy/prepared/findings.csv")
    path.write_text(path.read_text().replace("a red square", "a red circle"))
    names = opened().rows.index
    assert ("pair/0" in names, len(names)) == (False, 8)
    assert "left out 1 finding on pictures or captions that are gone" in " ".join(capsys.readouterr().err.split())


@pytest.mark.acceptance
def test_a_kill_in_the_middle_of_clicks_loses_no_answered_decision(project):
    answered = []
    with started(project, "--by", "ben") as (other, _):
        for moment in (0.05, 0.3):
            with started(project, "--by", "anna") as (url, process):

                def click(url: str = url) -> None:
                    number = 0
                    while True:
                        decision = ("keep", "drop")[number % 2]
                        try:
                            post(url, "pair/0", decision)
                        except OSError:
                            return
                        answered.append(decision)
                        number += 1

                thread = threading.Thread(target=click)
                thread.start()
                time.sleep(moment)
                post(other, "pair/1", "keep")
                process.kill()
                thread.join()
        post(other, "pair/2", "keep")
    rows = rows_of(PATH)
    # The click that was killed may be there too.
    assert len(answered) <= sum(by == "anna" for *_, by in rows) <= len(answered) + 2
    assert [name for name, _, by in rows if by == "ben"] == ["pair/1", "pair/1", "pair/2"]
    assert PATH.read_bytes().endswith(b"\n")
