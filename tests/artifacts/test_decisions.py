"""decisions.csv: what can be read, several writers, the decision that holds, and what it was made on."""

import csv
import multiprocessing

import pandas as pd
import pyarrow as pa
import pytest

from vse_pipe.artifacts import decisions
from vse_pipe.core.errors import InputError

COLUMN_LINE = ",".join(decisions.COLUMNS)
IMAGES = pa.table({"image_id": [0, 1, 7], "file": ["a.jpg", "b.jpg", "c.jpg"], "sha256": ["aa", "bb", "cc"]})
CAPTIONS = pa.table(
    {"caption_id": [10, 11, 12, 13], "image_id": [0, 1, 7, 7], "text": ["a dog", "a\ncat", "=up", "two"]}
)


def _rows(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame([{"kind": "pair", "by": "anna"} | row for row in rows])


def _saved(tmp_path, *lines: str):
    path = tmp_path / "decisions.csv"
    path.write_text("\n".join([COLUMN_LINE, *lines, ""]))
    return path


def _row(**cells: object) -> str:
    return ",".join(str(({"kind": "pair", "id": 10} | cells).get(name, "")) for name in decisions.COLUMNS)


def _judged(path, rows: list[dict], images: pa.Table = IMAGES, captions: pa.Table = CAPTIONS) -> None:
    """Appends decisions on what the tables hold."""
    table = pd.DataFrame([{"kind": "pair", "proposal": "", "other": None, "by": "anna"} | row for row in rows])
    decisions.append(path, decisions.described(table, images, captions))


def _in_force(path, images: pa.Table = IMAGES, captions: pa.Table = CAPTIONS) -> decisions.InForce:
    rows = decisions.read(path)
    return decisions.in_force(rows, rows["kind"] != "", images, captions)


def _held(holding: decisions.InForce) -> list[tuple]:
    return list(holding.rows[["kind", "id", "action"]].itertuples(index=False, name=None))


def test_findings_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "findings.csv"
    rows = _rows(
        {"id": 10, "doubt": 0.93, "why": 'says "the same", twice', "proposal": "picture", "other": 11, "file": "a.jpg"},
        {"id": 2**53 + 1, "doubt": 0.5, "caption": "=cmd()\n of  two lines"},
    )
    decisions.write(path, rows)
    back = decisions.read(path)
    assert path.read_text().splitlines()[0] == COLUMN_LINE
    assert "'=cmd() of two lines" in path.read_text()  # no formula, one line
    assert (back.index.tolist(), back["id"].tolist()) == ([2, 3], [10, 2**53 + 1])
    assert back["why"].tolist() == ['says "the same", twice', ""]
    assert back["caption"].tolist() == ["", "=cmd() of two lines"]
    assert (back["doubt"].tolist(), back["other"].tolist()) == ([0.93, 0.5], [11, pd.NA])
    decisions.write(tmp_path / "again.csv", back)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()
    with path.open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["10", str(2**53 + 1)]


BAD = [
    (_row(kind="pairs"), "row 3: unknown kind 'pairs'; known: pair, caption"),
    (_row(decision="dorp"), "row 3: unknown decision 'dorp'; known: keep, drop"),
    (_row(decision="weight"), "row 3: 'weight' needs a pair with a doubt"),
    (_row(kind="leak", decision="take", proposal="move", other=10), "row 3: id 10 is its own partner"),
    ("pair,10,0.5", "Row #3: Expected 15 columns, got 3"),
    (_row(file="\udcff"), "Row #3: .*invalid UTF8"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_row_that_cannot_be_read_is_an_error_with_its_number(tmp_path, row, message):
    path = tmp_path / "decisions.csv"
    path.write_bytes("\n".join([COLUMN_LINE, _row(), row, _row(id=12)]).encode(errors="surrogateescape"))
    before = path.read_bytes()
    with pytest.raises(InputError, match=message) as caught:
        decisions.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_the_last_row_holds(tmp_path):
    path = tmp_path / "decisions.csv"
    _judged(
        path,
        [
            {"id": 10, "decision": "drop"},
            {"id": 10, "decision": "keep", "by": "ben"},
            {"id": 11, "decision": "drop"},
            {"id": 11, "decision": "undo"},
            {"id": 12, "decision": "drop"},
            {"id": 12, "decision": "keep", "by": "ben"},
            {"id": 12, "decision": "undo", "by": "ben"},  # anna's decision stands
            {"id": 13, "decision": "drop", "by": "auto 0.9"},
            {"id": 13, "decision": "take", "proposal": "picture", "other": 1, "by": "ben"},
            {"kind": "caption", "id": 10, "decision": "drop"},  # the same id, another finding
            {"id": 10, "decision": ""},
        ],
    )
    holding = _in_force(path)
    pairs = [("pair", 10, "keep"), ("pair", 12, "drop"), ("pair", 13, "picture")]
    assert _held(holding) == [*pairs, ("caption", 10, "drop")]
    assert (holding.changed, holding.missing) == ([], [])


ON = [
    {"kind": "pair", "id": 10, "decision": "drop"},
    {"kind": "caption", "id": 11, "decision": "keep"},
    {"kind": "picture", "id": 7, "decision": "drop"},
    {"kind": "duplicate", "id": 1, "decision": "take", "proposal": "merge", "other": 0},
    {"kind": "leak", "id": 7, "decision": "take", "proposal": "move", "other": 1},
    {"kind": "duplicate_caption", "id": 13, "decision": "take", "proposal": "merge", "other": 12},
    {"kind": "pair", "id": 12, "decision": "take", "proposal": "picture", "other": 1},
    {"kind": "duplicate", "id": 0, "decision": "drop", "other": 1},
]


def _exchanged(table: pa.Table, column: str, old: str, new: str) -> pa.Table:
    texts = [new if text == old else text for text in table[column].to_pylist()]
    return table.set_column(table.schema.get_field_index(column), column, pa.array(texts))


@pytest.mark.parametrize(
    ("picture", "text", "changed"),
    [
        (None, None, []),
        ("aa", None, ["pair 10", "duplicate 1", "duplicate 0"]),  # also where it is the picture that stays
        ("bb", None, ["caption 11", "duplicate 1", "leak 7", "pair 12", "duplicate 0"]),
        (None, "a dog", ["pair 10"]),
    ],
)
def test_a_decision_on_another_picture_or_caption_does_not_hold_and_is_named(tmp_path, picture, text, changed):
    path = tmp_path / "decisions.csv"
    _judged(path, ON)
    images = _exchanged(IMAGES, "sha256", picture or "", "of another picture")
    captions = _exchanged(CAPTIONS, "text", text or "", "other words")
    holding = _in_force(path, images, captions)
    assert [name.partition(" of ")[0] for name in holding.changed] == changed
    assert [f"{kind} {number}" for kind, number, _ in _held(holding)] == [
        name for name in (f"{row['kind']} {row['id']}" for row in ON) if name not in changed
    ]
    assert bool(decisions.notes(holding)) == bool(changed)


def test_a_decision_without_a_digest_or_on_what_is_gone_does_not_hold(tmp_path):
    path = _saved(
        tmp_path, _row(decision="drop", caption="a dog"), _row(kind="leak", id=9, decision="keep", sha256="x")
    )
    holding = _in_force(path)
    assert (_held(holding), holding.changed, holding.missing) == ([], ["pair 10 of , row 2"], ["leak 9 of , row 3"])
    first, second = decisions.notes(holding)
    assert first.endswith("because their picture or caption is another one now: 1 (pair 10 of , row 2)")
    assert "is not there now: 1 (leak 9" in second


def test_a_new_decision_takes_the_place_of_one_on_an_earlier_picture(tmp_path):
    path = tmp_path / "decisions.csv"
    _judged(path, [{"kind": "picture", "id": 7, "decision": "drop"}])
    images = _exchanged(IMAGES, "sha256", "cc", "new")
    assert len(_in_force(path, images).changed) == 1
    _judged(path, [{"kind": "picture", "id": 7, "decision": "keep"}], images)
    holding = _in_force(path, images)
    assert (_held(holding), holding.changed) == ([("picture", 7, "keep")], [])
    back = _in_force(path)
    assert (_held(back), back.changed) == ([("picture", 7, "drop")], ["picture 7 of c.jpg, row 3"])


def test_pairs_follow_a_picture_into_the_one_it_was_merged_with(tmp_path):
    path = tmp_path / "decisions.csv"
    moved = {"id": 11, "decision": "take", "proposal": "picture", "other": 7}
    merge = {"kind": "duplicate", "id": 7, "decision": "take", "proposal": "merge", "other": 0}
    _judged(path, [{"id": 12, "decision": "drop"}, moved, merge])
    images, owners = IMAGES.slice(0, 2), pa.array([0, 1, 0, 0])
    captions = CAPTIONS.set_column(1, "image_id", owners)
    rows = decisions.read(path)
    before = decisions.in_force(rows, rows["kind"] == "pair", IMAGES, CAPTIONS)
    after = decisions.in_force(rows, rows["kind"] == "pair", images, captions)
    assert _held(before) == _held(after) == [("pair", 12, "drop"), ("pair", 11, "picture")]
    assert (before.rows["other"].tolist()[1], after.rows["other"].tolist()[1]) == (7, 0)
    # A decision on the merged pair holds for the source too, where the picture is there.
    _judged(path, [{"id": 12, "decision": "keep"}], images, captions)
    assert ("pair", 12, "keep") in _held(_in_force(path))


def test_what_was_done_already_is_not_told(tmp_path):
    path = tmp_path / "decisions.csv"
    _judged(path, [{"id": 10, "decision": "take", "proposal": "picture", "other": 1}])
    moved = CAPTIONS.set_column(1, "image_id", pa.array([1, 1, 7, 7]))
    assert decisions.notes(_in_force(path, captions=moved)) == []
    _judged(path, [{"kind": "leak", "id": 0, "decision": "keep", "other": 7}])
    assert decisions.notes(_in_force(path, images=IMAGES.slice(0, 2), captions=moved)) == []


def test_nothing_decided_is_no_error(tmp_path):
    path = tmp_path / "decisions.csv"
    for content in ("", "\ufeff", f"{COLUMN_LINE}\n", f"\ufeff{COLUMN_LINE}\r\n", COLUMN_LINE):
        path.write_text(content)
        assert _held(_in_force(path)) == []
    _judged(path, [{"id": 10, "decision": "drop"}])  # after a last line without an end
    _judged(path, [{"id": 11, "decision": "drop"}])
    assert _held(_in_force(path)) == [("pair", 10, "drop"), ("pair", 11, "drop")]
    assert path.read_text().count("\n") == 3


def _append_many(path, by: str, start) -> None:
    start.wait()
    for number in range(200):
        decisions.append(path, _rows({"id": number, "decision": "drop", "by": by}))


def test_two_writers_lose_no_row(tmp_path):
    path = tmp_path / "decisions.csv"
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    writers = [context.Process(target=_append_many, args=(path, by, start)) for by in ("anna", "ben")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = decisions.read(path)
    numbers = list(range(200))
    assert rows.groupby("by")["id"].apply(list).to_dict() == {"anna": numbers, "ben": numbers}


def test_findings_on_captions_speak_of_their_own_picture_and_those_on_pairs_of_the_one_that_is_shown():
    """As in the review of mismatched pairs."""
    shown = CAPTIONS.append_column(decisions.SHOWN, pa.array([1, 0, 7, 7]))
    rows = pd.DataFrame([{"kind": kind, "id": 10, "proposal": "drop", "other": None} for kind in ("pair", "caption")])
    rows = decisions.described(rows, IMAGES, shown)
    assert rows["file"].tolist() == ["b.jpg", "a.jpg"]
    assert decisions.current(rows, IMAGES, shown).tolist() == [True, True]
    assert decisions.current(rows, IMAGES, CAPTIONS).tolist() == [False, True]


def test_a_decision_that_cannot_be_written_whole_is_not_there(tmp_path, monkeypatch):
    path = tmp_path / "decisions.csv"
    _judged(path, [{"id": 10, "decision": "drop"}])
    before = path.read_bytes()

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decisions.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        _judged(path, [{"id": 11, "decision": "drop"}])
    assert path.read_bytes() == before
