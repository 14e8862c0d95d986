"""decisions.csv: files of spreadsheets and of killed writers, several writers, and the decision that holds."""

import multiprocessing
import time

import pandas as pd
import pyarrow as pa
import pytest

from vse_pipe.artifacts import decisions
from vse_pipe.core.errors import InputError

SHA = {"images_sha256": "a" * 64, "captions_sha256": "b" * 64}
HEADER = decisions.header_of("mine", SHA)
OTHER = decisions.header_of("theirs", dict.fromkeys(SHA, "c" * 64))
COLUMN_LINE = ",".join(decisions.COLUMNS)
IMAGES = pa.table({"image_id": [0, 1, 7], "file": ["a.jpg", "b.jpg", "c.jpg"]})
CAPTIONS = pa.table(
    {"caption_id": [10, 11, 12, 13], "image_id": [0, 1, 7, 7], "text": ["a dog", "a\ncat", "=up", "two"]}
)


def _rows(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame([{"kind": "pair", "by": "anna"} | row for row in rows])


def _saved(tmp_path, *lines: str, header: str = HEADER):
    path = tmp_path / "decisions.csv"
    path.write_text("\n".join([*([header] if header else []), *lines, ""]))
    return path


def _row(**cells: object) -> str:
    return ",".join(str(({"kind": "pair", "id": 10} | cells).get(name, "")) for name in decisions.COLUMNS)


def _held(path) -> list[tuple]:
    rows = decisions.latest(decisions.read(path))
    return list(rows[["kind", "id", "action"]].itertuples(index=False, name=None))


def test_findings_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "findings.csv"
    rows = _rows(
        {"id": 10, "doubt": 0.93, "why": 'says "the same", twice', "proposal": "caption", "other": 11, "file": "a.jpg"},
        {"id": 12, "doubt": 0.5, "caption": "=cmd()\n of  two lines"},
    )
    decisions.write(path, rows, HEADER)
    back = decisions.read(path)
    assert path.read_text().splitlines()[:2] == [HEADER, COLUMN_LINE]
    assert "'=cmd() of two lines" in path.read_text()  # no formula, one line
    assert back.attrs["header"] == HEADER
    assert back.index.tolist() == [3, 4]
    assert back["why"].tolist() == ['says "the same", twice', ""]
    assert back["caption"].tolist() == ["", "=cmd() of two lines"]
    assert (back["doubt"].tolist(), back["other"].tolist()) == ([0.93, 0.5], [11, pd.NA])
    decisions.write(tmp_path / "again.csv", back, back.attrs["header"])
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


def _spreadsheet(separator: str, end: str, mark: str = "", header: bool = True) -> bytes:
    names = ["kind", "id", "doubt", "caption", "decision"]
    rows = [
        names,
        ["Pair", "10", "0,93" if separator == ";" else "0.93", '"a dog"', " Drop "],
        ["", "", "", "", ""],
        ["pair", "12"],
    ]
    first = [HEADER.replace(", ", separator)] if header else []
    lines = first + [separator.join(row + [""] * 3) for row in rows[:3]] + [separator.join(rows[3])]
    return (mark + end.join(lines) + end).encode()


@pytest.mark.parametrize(
    "content",
    [
        _spreadsheet(",", "\n"),
        _spreadsheet(";", "\r\n", "\ufeff"),
        _spreadsheet("\t", "\r\n"),
        _spreadsheet(",", "\r", header=False),
        _spreadsheet(";", "\n", header=False).rstrip(b"\n") + b";0,2;a cat;",  # the last line without an end
    ],
    ids=["commas", "semicolons, BOM", "tabs", "CR, no header", "no last line break"],
)
def test_files_of_spreadsheets_can_be_read_and_appended_to(tmp_path, content):
    path = tmp_path / "decisions.csv"
    path.write_bytes(content)
    back = decisions.read(path)
    assert (back["id"].tolist(), back["doubt"].tolist()[0]) == ([10, 12], 0.93)
    assert _held(path) == [("pair", 10, "drop")]
    decisions.append(path, _rows({"id": 12, "decision": "keep"}), HEADER)
    assert _held(path) == [("pair", 10, "drop"), ("pair", 12, "keep")]
    assert path.read_text().splitlines()[:2] == [HEADER, COLUMN_LINE]


BAD = [
    (_row(kind="pairs"), "line 4: unknown kind 'pairs'; did you mean 'pair'"),
    (_row(decision="dorp"), "line 4: unknown decision 'dorp'; did you mean 'drop'"),
    (_row(proposal="swap"), "line 4: unknown proposal 'swap'"),
    (_row(id="1.2E+11"), "line 4: id '1.2E.11' is no whole number"),
    (_row(other="b.jpg"), "line 4: other 'b.jpg' is no whole number"),
    (_row(doubt="12.5"), "line 4: doubt '12.5' is no number from 0 to 1"),
    (_row(at="yesterday"), "line 4: at 'yesterday' is no time"),
    (_row(decision="weight"), "line 4: 'weight' needs a doubt"),
    (_row(kind="leak", decision="weight", doubt=1), "line 4: 'weight' is a decision on a pair, not on a leak"),
    (_row(decision="take"), "line 4: 'take' needs a proposal"),
    (_row(decision="take", proposal="move"), "line 4: a pair has no proposal 'move'"),
    (_row(decision="take", proposal="picture"), "line 4: 'picture' needs the id in column other"),
    (_row(kind="leak", decision="take", proposal="move", other=10), "line 4: id 10 is its own partner"),
    (_row() + ",,more", "line 4: more cells than the 13 columns"),
    ("<<<<<<< HEAD", "line 4: a merge conflict of git"),
    ('pair,10,0.5,"no end', "quotation mark without its pair"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_refuses_rows_that_cannot_be_meant(tmp_path, row, message):
    path = _saved(tmp_path, COLUMN_LINE, _row(), row, _row(id=12))
    with pytest.raises(InputError, match=message) as caught:
        decisions.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("kind,id,desicion", "line 2: unknown column 'desicion'; did you mean 'decision'"),
        ("kind,doubt", "line 2: column 'id' is missing"),
        ("kind,id,by,by", "line 2: two columns 'by'"),
    ],
)
def test_refuses_columns(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        decisions.read(_saved(tmp_path, columns, "pair,1,drop"))


def test_refuses_later_formats_and_other_encodings(tmp_path):
    with pytest.raises(InputError, match="format 2"):
        decisions.read(_saved(tmp_path, COLUMN_LINE, header=HEADER.replace("decisions 1", "decisions 2")))
    (tmp_path / "old.csv").write_bytes(b"kind,id,why\npair,1,\xe9t\xe9\n")
    with pytest.raises(InputError, match="CSV UTF-8"):
        decisions.read(tmp_path / "old.csv")


def test_the_later_decision_holds_and_contradictions_are_told(tmp_path):
    path = _saved(
        tmp_path,
        COLUMN_LINE,
        _row(decision="drop", by="anna", at="2026-11-26T20:15:03Z"),
        _row(decision="keep", by="ben", at="2026-11-26T19:00:00Z"),  # merged from another branch
        _row(id=11, decision="drop"),
        _row(id=11, decision="undo"),
        _row(id=14, decision="drop", by="anna"),
        _row(id=14, decision="keep", by="ben"),
        _row(id=14, decision="undo", by="ben"),  # anna's decision stands
        _row(id=12, decision="drop", by="auto 0.9", at="2026-11-26T20:15:03Z"),
        _row(id=12, decision="keep", by="ben"),  # no time: as late as the row before
        _row(id=12, decision="take", proposal="drop", by="ben", at="2026-11-26T20:15:02Z"),
        _row(id=13, decision="take", proposal="picture", other=1, by="anna"),
        _row(id=13, decision="take", proposal="picture", other=7, by="ben"),
        _row(kind="caption", decision="drop"),  # the same id, another finding
        _row(id=10),
    )
    rows = decisions.latest(decisions.read(path))
    pairs = [("pair", 10, "drop"), ("pair", 14, "drop"), ("pair", 12, "keep"), ("pair", 13, "picture")]
    assert _held(path) == [*pairs, ("caption", 10, "drop")]
    assert rows.set_index("id").loc[13, "other"] == 7
    assert rows.attrs["contradictions"] == ["pair 10: anna drop, ben keep", "pair 13: anna picture 1, ben picture 7"]


def _matched(path, header: str = HEADER) -> list[int]:
    rows = decisions.matched(decisions.latest(decisions.read(path)), IMAGES, CAPTIONS, header)
    assert len(rows) + len(rows.attrs["lost"]) == len(decisions.latest(decisions.read(path)))
    return rows["id"].tolist()


def test_rows_must_still_speak_of_the_same_thing(tmp_path):
    path = _saved(
        tmp_path,
        COLUMN_LINE,
        _row(decision="drop", file="a.jpg", caption="a dog"),
        _row(id=11, decision="drop", file="b.jpg", caption="a cat"),  # a line break became a space
        _row(id=12, decision="keep", caption="=up"),
        _row(id=13, decision="keep", file="b.jpg", caption="two"),  # shown with another image
        _row(id=99, decision="drop", caption="a dog"),
        _row(kind="duplicate", id=1, decision="take", proposal="merge", other=0, file="b.jpg", other_file="a.jpg"),
        _row(kind="duplicate", id=7, decision="take", proposal="merge", other=0, file="c.jpg", other_file="b.jpg"),
        _row(kind="leak", id=7, decision="keep", other=99, file="c.jpg"),  # kept: its partner does not matter
    )
    assert _matched(path) == _matched(path, OTHER) == [10, 11, 12, 1, 7]
    rows = decisions.matched(decisions.latest(decisions.read(path)), IMAGES, CAPTIONS, HEADER)
    assert decisions.account(rows) == [
        "3 decisions change nothing, because their pictures or captions are gone or were changed: pair 13 (line 6), pair 99 (line 7), duplicate 7 (line 9)"
    ]


def test_pairs_follow_a_picture_into_the_one_it_was_merged_with(tmp_path):
    path = _saved(
        tmp_path,
        COLUMN_LINE,
        _row(decision="drop", file="old.jpg", caption="a dog"),
        _row(id=11, decision="take", proposal="picture", other=5, file="b.jpg", caption="a cat", other_file="old.jpg"),
        _row(id=12, decision="drop", file="there.jpg", caption="=up"),
        _row(kind="duplicate", id=5, decision="take", proposal="merge", other=0, file="old.jpg", other_file="a.jpg"),
        _row(kind="duplicate", id=7, decision="take", proposal="merge", other=0, file="there.jpg", other_file="a.jpg"),
    )
    rows = decisions.read(path)
    pairs = decisions.followed(decisions.latest(rows[rows["kind"] == "pair"]), rows, IMAGES)
    # Picture 7 is still there, so nothing follows it.
    assert pairs["file"].tolist() == ["a.jpg", "b.jpg", "there.jpg"]
    assert (pairs["other_file"].tolist()[1], pairs["other"].tolist()[1]) == ("a.jpg", 0)
    assert decisions.matched(pairs, IMAGES, CAPTIONS, OTHER)["id"].tolist() == [10, 11]


def test_rows_without_file_and_caption_need_the_same_tables(tmp_path):
    path = _saved(tmp_path, COLUMN_LINE, _row(decision="drop"), _row(kind="picture", id=7, decision="drop"))
    assert _matched(path) == [10, 7]
    with pytest.raises(InputError, match=r"another data set 'mine': 2 of 2 .* pair 10 \(line 3\)"):
        _matched(path, OTHER)
    with pytest.raises(InputError, match="another data set: 1 of 1"):
        _matched(_saved(tmp_path, COLUMN_LINE, _row(decision="drop"), header=""))


def test_nothing_decided_is_no_error(tmp_path):
    path = tmp_path / "decisions.csv"
    emptied = ("\n\n", "\ufeff\r\n", f"{HEADER}\n\n\n", f"{HEADER};;\r\n;;;;\r\n")  # by a spreadsheet
    for content in ("", HEADER, HEADER[:15], f"{HEADER}\n{COLUMN_LINE[:20]}", f"{HEADER}\n{COLUMN_LINE}\n", *emptied):
        path.write_text(content)
        assert _matched(path) == []
        decisions.append(path, _rows({"id": 10, "decision": "drop"}), HEADER)
        assert path.read_text().count("\n") == 3
        assert _matched(path) == [10]


def test_ids_that_moved_are_told_from_another_data_set(tmp_path):
    path = _saved(tmp_path, COLUMN_LINE, _row(id=99, caption="a dog", decision="drop"))
    moved = decisions.header_of("mine", dict.fromkeys(SHA, "c" * 64))
    for expected, message in (
        (moved, "another data set 'mine', or of this one before its ids changed"),
        (OTHER, "another data set 'mine':"),
    ):
        with pytest.raises(InputError, match=f"{message}.* 1 of 1 are on .*, pair 99"):
            decisions.matched(decisions.latest(decisions.read(path)), IMAGES, CAPTIONS, expected)


def test_decisions_on_another_data_set_go_to_another_file(tmp_path):
    path = _saved(tmp_path, COLUMN_LINE, _row(decision="drop"))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"holds decisions on data set 'mine'"):
        decisions.append(path, _rows({"id": 1, "decision": "drop"}), OTHER)
    assert path.read_bytes() == before


def test_a_writer_killed_in_a_row_costs_that_row_only(tmp_path, capsys):
    path = tmp_path / "decisions.csv"
    rows = [{"id": n, "decision": "drop", "why": 'a "word", two', "at": "2026-11-26T20:15:03Z"} for n in (10, 11)]
    decisions.append(path, _rows(rows[0]), HEADER)
    whole = path.read_bytes()
    decisions.append(path, _rows(rows[1]), HEADER)
    full = path.read_bytes()
    for size in range(len(whole) + 1, len(full)):
        path.write_bytes(full[:size])
        # The whole row but for the line break, or for the time.
        back = [10, 11] if full[:size].endswith((b"03Z", b"anna,")) else [10]
        assert decisions.read(path)["id"].tolist() == back, full[:size]
        decisions.append(path, _rows({"id": 12, "decision": "keep"}), HEADER)
        assert decisions.read(path)["id"].tolist() == [*back, 12]
    assert "removed its last line, which was incomplete" in capsys.readouterr().err


def _append_many(path, by: str, start) -> None:
    start.wait()
    for number in range(200):
        decisions.append(path, _rows({"id": number, "decision": "drop", "by": by}), HEADER)


@pytest.mark.parametrize("before", ["", "kind;id;decision\r\npair;1;keep\r\n"], ids=["no file", "a spreadsheet's"])
def test_two_writers_lose_no_row(tmp_path, before):
    path = tmp_path / "decisions.csv"
    if before:
        path.write_bytes(before.encode())
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    writers = [context.Process(target=_append_many, args=(path, by, start)) for by in ("anna", "ben")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = decisions.read(path)
    assert rows.groupby("by")["id"].apply(list).to_dict() == {
        **({"": [1]} if before else {}),
        "anna": list(range(200)),
        "ben": list(range(200)),
    }


def test_a_hundred_thousand_rows_take_seconds(tmp_path):
    count = 100_000
    texts = [f"caption {number}" for number in range(count)]
    table = pa.table({"caption_id": range(count), "image_id": range(count), "text": texts})
    images = pa.table({"image_id": range(count), "file": texts})
    columns = {"id": range(count), "kind": "pair", "doubt": 0.5, "file": texts, "caption": texts, "decision": "drop"}
    started = time.process_time()
    decisions.write(tmp_path / "decisions.csv", pd.DataFrame(columns), HEADER)
    rows = decisions.latest(decisions.read(tmp_path / "decisions.csv"))
    assert len(decisions.matched(rows, images, table, OTHER)) == count
    assert time.process_time() - started < 10
