"""The page's JSON: one finding at a time, decisions that are on the disk, and requests that are refused."""

import errno
import io
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.audit.review.project import HOSTILE, client, decide, find, name_of, opened, rows_of
from vse_pipe.artifacts import decisions

PATH = Path("decisions.csv")


def walk(page, **asked: str) -> list[str]:
    """Names of the findings that the arrow to the right shows, until the first one comes again."""
    names = [name_of(find(page, **asked))]
    while (answer := find(page, **asked, after=names[-1])) and not answer["wrapped"]:
        names.append(name_of(answer))
    assert name_of(answer) == names[0]
    return names


def test_findings_come_one_by_one_by_kind_words_and_state(project):
    page = client()
    assert len(walk(page)) == 9
    assert walk(page, kind="duplicate") == ["duplicate/27", "duplicate/47"]
    assert walk(page, text="SQUARE same bytes") == walk(page, kind="duplicate", text="same") == ["duplicate/27"]
    assert walk(page, text="<script>alert") == [
        "duplicate/27",
        "duplicate/47",
        "pair/0",
        "duplicate_caption/4",
        "pair/1",
    ]
    assert (name_of(find(page, text="zyzzyva")), name_of(find(page, kind="video"))) == (None, None)
    decide(page, "pair/0", "keep")
    assert walk(page, kind="pair", state="undecided") == ["pair/1", "pair/2"]
    assert walk(page, kind="pair", state="decided") == ["pair/0"]
    back = find(page, kind="pair", before="pair/1")
    assert (name_of(back), back["number"], back["matching"], back["wrapped"]) == ("pair/0", 1, 3, False)
    last = find(page, kind="pair", before="pair/0")
    assert (name_of(last), last["number"], last["wrapped"]) == ("pair/2", 3, True)
    assert name_of(find(page, state="undecided", at="pair/0")) == "pair/0"
    figures = find(page)["progress"]
    assert (figures["decided"], figures["total"], figures["kinds"]["pair"]) == (1, 9, {"decided": 1, "total": 3})


def test_what_nobody_has_decided_comes_first_and_the_program_decides_for_all(project):
    opened().decide(0.9)
    anna, ben = client("anna"), client("ben")
    decide(ben, "duplicate/47", "keep")
    left = ["picture/37", "duplicate_caption/4", "pair/1", "pair/2"]
    assert walk(anna, state="undecided") == left
    assert (walk(anna, state="open"), walk(ben, state="open")) == (["duplicate/47", *left], left)
    assert walk(anna, state="decided") == ["duplicate/27", "duplicate/47", "leak/57", "pair/0", "caption/3"]
    assert name_of(find(anna, kind="duplicate")) == "duplicate/27"
    assert find(anna)["progress"]["decided"] == 5
    # Before an own decision only the program's is told.
    others = [find(anna, at=name)["finding"]["others"] for name in ("duplicate/27", "duplicate/47")]
    assert others == [[{"by": "auto 0.9", "decision": "take"}], []]


def test_a_finding_has_its_texts_as_data_its_proposal_and_its_group(project):
    page = client()
    finding = find(page, at="pair/0")["finding"]
    assert (finding["caption"], finding["other_caption"], finding["other"]) == ("a red square", decoded(HOSTILE), 17)
    assert (finding["picture"], finding["other_picture"]) == ("/picture/pair/0", "/picture/pair/0/other")
    answer = find(page, at="duplicate/47")
    assert [(one["id"], one["decision"]) for one in answer["group"]] == [(27, ""), (47, "")]
    assert (answer["grouped"], find(page, at="leak/57")["group"]) == (2, [])
    html = page.get("/").text
    assert ("toy" in html, "anna" in html, "<script>" in html) == (True, True, False)
    assert page.get("/review.js").headers["content-type"].startswith("text/javascript")


def decoded(text: str) -> str:
    """As a row has it: on one line."""
    return " ".join(text.split())


def test_a_decision_is_on_the_disk_when_it_is_answered_and_undo_takes_it_back(project):
    page = client()
    answer = decide(page, "pair/0", "take")
    assert (answer["finding"]["decision"], answer["before"], answer["rows"]) == ("take", "", 1)
    assert rows_of(PATH) == [("pair/0", "take", "anna")]
    # The page is open twice, and the other one still shows it as undecided.
    assert decide(page, "pair/0", "drop")["before"] == "take"
    decide(page, "pair/0", "undo")
    assert [row[1] for row in rows_of(PATH)] == ["take", "drop", "undo"]
    assert decide(page, "pair/0", "undo", status=400) == {"error": "there is no decision to undo"}
    assert not opened().verdicts().standing.any()
    row = decisions.read(PATH).iloc[0]
    assert (row["other"], row["caption"], row["other_file"]) == (17, "a red square", "green.png")


def test_a_group_is_decided_at_once_but_for_what_is_decided(project):
    page = client()
    decide(page, "duplicate/47", "keep")
    assert decide(page, "duplicate/27", "take", group=True)["rows"] == 1
    assert decide(page, "duplicate/27", "undo", group=True)["rows"] == 2
    assert decide(page, "duplicate/27", "drop", group=True)["rows"] == 2
    assert [name for name, *_ in rows_of(PATH)][-2:] == ["duplicate/27", "duplicate/47"]


def test_what_others_decided_is_told_after_an_own_decision_only(project):
    anna, ben = client("anna"), client("ben")
    decide(anna, "pair/0", "keep")
    decide(anna, "pair/1", "keep")
    for asked in ({"at": "pair/0"}, {"state": "decided"}):
        assert "anna" not in ben.get("/api/finding", params=asked).text
    answer = decide(ben, "pair/0", "take")
    assert answer["finding"]["others"] == [{"by": "anna", "decision": "keep"}]
    assert find(anna, at="pair/0")["finding"]["others"] == [{"by": "ben", "decision": "take"}]
    decide(ben, "pair/0", "undo")
    assert (find(ben, at="pair/0")["finding"]["others"], find(anna, at="pair/0")["finding"]["others"]) == ([], [])
    # The undo is of the own decision: those of anna stand.
    assert (opened().verdicts().standing == "keep").sum() == 2


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ('{"kind": "pair", "id": 99, "decision": "keep"}', 404, "no finding pair/99 in this audit"),
        ("{", 400, "the request: invalid JSON"),
        ('{"kind": "leak", "id": 57, "decision": "weight"}', 400, "leak 57 has nothing to weight"),
        (" " * 20_000, 413, "the request is too large"),
    ],
)
def test_decisions_that_make_no_sense_are_refused(project, content, status, message):
    answer = client().post("/api/decisions", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)
    assert not PATH.exists()


def test_other_sites_cannot_decide(project):
    page, document = client(), {"kind": "pair", "id": 0, "decision": "keep"}
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
        assert page.post("/api/decisions", json=document, headers=headers).status_code in (400, 403)
    assert page.post("/api/decisions", data=document).status_code == 415
    assert page.get("/api/decisions").status_code == 405
    assert not PATH.exists()
    assert page.post("/api/decisions", json=document, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200


def test_a_file_that_cannot_be_written_is_said_and_nothing_counts_as_decided(project, monkeypatch, capsys):
    page = client()

    def full(*_):
        raise OSError(errno.EROFS, "Read-only file system", "decisions.csv")

    monkeypatch.setattr(decisions, "append", full)
    problem = "decisions.csv: Read-only file system; the decision is not saved"
    assert decide(page, "pair/0", "keep", status=503) == {"error": problem}
    assert find(page)["progress"]["decided"] == 0
    assert problem in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/picture/pair/0", 200),
        ("/picture/pair/0/other", 200),
        ("/picture/leak/57", 404),  # the file is gone
        ("/picture/pair/2/other", 404),  # there is no partner
        ("/picture/pair/..%2f..%2fetc", 404),
        ("/api/finding?after=pair/0x1", 404),
        ("/api/finding?state=some", 400),
        ("/nothing", 404),
    ],
)
def test_pictures_and_addresses(project, path, status):
    answer = client().get(path)
    assert answer.status_code == status
    if status == 200:
        assert Image.open(io.BytesIO(answer.content)).size == (480, 320)
    else:
        assert "Traceback" not in answer.text


def test_a_picture_that_was_replaced_under_its_name_is_not_shown(project, capsys):
    shutil.copy("photos/red.png", "photos/green.png")
    found = client().get("/picture/pair/0/other")
    assert (found.status_code, "green.png: the file changed" in found.json()["error"]) == (503, True)
    assert client().get("/picture/pair/0").status_code == 200
    assert "run `vse-pipe prepare`" in capsys.readouterr().err


def test_names_in_findings_do_not_leave_the_data_set(project):
    (project / "secret.png").write_bytes((project / "photos/red.png").read_bytes())
    findings = Path("data/audit/datasets/toy/prepared/findings.csv")
    findings.write_text(findings.read_text().replace("green.png", "../secret.png"))
    page = client()
    answer = page.get("/picture/pair/0/other")
    assert (answer.status_code, "outside its root" in answer.json()["error"]) == (404, True)
