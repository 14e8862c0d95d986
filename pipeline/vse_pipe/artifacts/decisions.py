"""data/audit/datasets/<dataset>/<noise>/findings.csv: what is wrong with a data set. decisions.csv, in the project: what
people decided about it.

Both files have one format: a line with the data set and the digests of its two tables, a line with the columns, and a
row for each finding or decision. An audit writes findings whose last three columns are empty. decisions.csv only grows,
and the latest row of a finding holds. A spreadsheet may fill in the column ``decision`` of findings and save the file
with a byte order mark, semicolons, tabs, CRLF or empty cells. Both files may be merged in git line by line.

- ``kind`` and ``id`` name a finding: ``pair``, ``caption`` and ``duplicate_caption`` have a caption_id; ``picture``,
  ``duplicate`` and ``leak`` have an image_id.
- ``proposal``: ``drop``; ``picture``: the caption goes to the image ``other``; ``caption``: the picture takes the
  caption ``other`` and the caption ``id`` is dropped; ``merge``: the captions of ``id`` go to ``other`` and ``id`` is
  dropped; ``move``: the image goes to the split of the image ``other``.
- ``decision``: empty, ``keep``, ``drop``, ``take`` (the proposal), ``weight`` (trust 1 - doubt), ``undo``.
- ``file`` and ``caption`` are for the reader; they also prove that a row still speaks of the same thing.
"""

import csv
import fcntl
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import images as image_artefact
from vse_pipe.artifacts import joins
from vse_pipe.core import memory, tables
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, missing
from vse_pipe.core.files import require, write_text

NAME, FINDINGS = "decisions.csv", "findings.csv"
COLUMNS = (
    *("kind", "id", "doubt", "why", "proposal", "other", "file", "caption", "other_file", "other_caption"),
    *("decision", "by", "at"),
)
_TEXTS = ("why", "file", "caption", "other_file", "other_caption", "by")
# The proposals of each kind.
KINDS = {
    "pair": ("drop", "picture", "caption"),
    "caption": ("drop",),
    "picture": ("drop",),
    "duplicate": ("merge", "drop"),
    "duplicate_caption": ("merge", "drop"),
    "leak": ("move", "drop"),
}
CAPTION_KINDS = ("pair", "caption", "duplicate_caption")
PROPOSALS = ("drop", "picture", "caption", "merge", "move")
DECISIONS = ("", "keep", "drop", "take", "weight", "undo")
# A reviewer with this name, or with a number behind it, is the program.
AUTO = "auto"
TIME = "%Y-%m-%dT%H:%M:%SZ"
# Keys in the footer of images.parquet where ``prepare`` applied decisions: digests of the tables without them.
ORIGINAL = {key: f"undecided_{key}" for key in joins.FILES}
_HEADER = re.compile(r'"?# vse-pipe decisions (\d+)(?:\W+data set (\S+?)\W+images (\w+)\W+captions (\w+))?')
_COLUMN_LINE = ",".join(COLUMNS) + "\n"
_SHOWN = 3


def header(dataset: str, prepared: Path) -> str:
    """The first line, without its end. The digests are those of the tables without decisions, so that they stay when
    decisions are applied. Raises InputError where the data set is not prepared."""
    require(prepared / image_artefact.NAME, f"vse-pipe prepare --dataset {dataset}")
    with tables.open_parquet(prepared / image_artefact.NAME) as file:
        footer = {key.decode(): value.decode() for key, value in (file.schema.metadata or {}).items()}
    original = {key: footer[ORIGINAL[key]] for key in ORIGINAL if ORIGINAL[key] in footer}
    return header_of(dataset, original or joins.made_of(prepared))


def header_of(dataset: str, digests: dict[str, str]) -> str:
    """digests: by the keys of ``joins.made_of``."""
    images, captions = (digests[key] for key in joins.FILES)
    return f"# vse-pipe decisions 1, data set {dataset}, images {images}, captions {captions}"


def write(path: Path, rows: pd.DataFrame, header: str) -> None:
    """Writes findings, whole or not at all. rows: any of ``COLUMNS``, ``kind`` and ``id`` among them."""
    write_text(path, f"{header}\n{_COLUMN_LINE}{_lines(rows)}")


def read(path: Path) -> pd.DataFrame:
    """All rows, in the order of the file, with the columns ``COLUMNS``; the index is the line.

    ``id`` is int64, ``other`` Int64, ``doubt`` float64 (NaN where it is empty), the rest text. ``attrs`` has ``path``
    and ``header`` ("" without one). Raises InputError with the line of the first row that cannot be meant; a row that a
    killed writer left incomplete is ignored with a warning."""
    return parse(path, content_of(path))


def content_of(path: Path) -> bytes:
    """The bytes of the file, with no row that is just being appended."""
    if not path.exists():
        raise InputError(
            f"{path} does not exist; make it by deciding on findings, or as an empty file, which decides nothing"
        )
    memory.require_text(path)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return file.read()


def append(path: Path, rows: pd.DataFrame, header: str) -> None:
    """Adds decisions and returns when they are on the disk. Several processes and threads may append at once.

    The file is made if there is none. A row that a killed writer left incomplete is removed with a warning. A file that
    a spreadsheet saved is written anew in the usual form. Raises InputError where the file belongs to another data set
    or cannot be read."""
    with _locked(path) as file:
        file.seek(0)
        content = file.read()
        torn_start = _is_prefix(content)
        if not torn_start and not _is_ours(content):
            present = parse(path, content)
            ours = present.attrs["header"] or header
            _require_same(path, ours, header)
            write(path, pd.concat([present, rows], ignore_index=True), ours)
            return
        if torn_start:
            os.ftruncate(file.fileno(), 0)
            text = f"{header}\n{_COLUMN_LINE}"
        else:
            _require_same(path, content[: content.index(b"\n")].decode(), header)
            text = _mend(path, content, file.fileno())
        _write_all(file.fileno(), (text + _lines(rows)).encode())


def latest(rows: pd.DataFrame) -> pd.DataFrame:
    """The decision that holds for each finding: of the last decisions of everybody, the one with the latest ``at``, and
    of equal times the last row. A row without a time counts as being as late as the row of the same finding before it.

    ``undo`` takes back the own decision, not that of others. Findings without a decision are left out. A further column ``action`` is ``keep``,
    ``weight``, ``drop`` or the proposal that was taken. ``attrs["contradictions"]``: a text for each finding on which
    the last decisions of two people differ."""
    attrs = dict(rows.attrs)
    rows = rows[rows["decision"] != ""]
    rows = rows.assign(
        action=rows["decision"].where(rows["decision"] != "take", rows["proposal"]), place=np.arange(len(rows))
    )
    finding = ["kind", "id"]
    times = pd.to_datetime(rows["at"].where(rows["at"] != ""), utc=True, format="ISO8601")
    times = times.groupby([rows["kind"], rows["id"]]).ffill()
    rows = rows.assign(time=times).sort_values(["time", "place"], na_position="first")
    standing = rows.drop_duplicates([*finding, "by"], keep="last")
    standing = standing[standing["action"] != "undo"]
    standing_rows = standing.drop_duplicates(finding, keep="last").sort_values("place").drop(columns=["place", "time"])
    standing_rows.attrs = attrs | {"contradictions": _contradictions(standing, finding)}
    return standing_rows


def followed(pairs: pd.DataFrame, rows: pd.DataFrame, images: pa.Table) -> pd.DataFrame:
    """Decisions on pairs, where a picture that was merged into another is replaced by that one.

    pairs: of ``latest``; rows: all of the file, as ``read`` returns them; images: ``image_id`` after ``prepare``, which
    merges and leaves the captions' decisions to ``inject``."""
    merged = latest(rows[rows["kind"] == "duplicate"])
    merged = merged[(merged["action"] == "merge") & ~merged["id"].isin(images["image_id"].to_numpy())]
    changed = pairs.copy()
    for column, old, new in (
        ("other", "id", "other"),
        ("file", "file", "other_file"),
        ("other_file", "file", "other_file"),
    ):
        partners = merged[merged[old].astype("str") != ""].drop_duplicates(old)
        place = pd.Index(partners[old]).get_indexer(pairs[column].fillna(-1) if column == "other" else pairs[column])
        changed.loc[place >= 0, column] = partners[new].to_numpy()[place[place >= 0]]
    changed.attrs = pairs.attrs
    return changed


def matched(rows: pd.DataFrame, images: pa.Table, captions: pa.Table, expected: str) -> pd.DataFrame:
    """The rows of ``latest`` that still speak of the same pictures and captions.

    Ids must exist, and ``file`` and ``caption`` must agree where a row has them; a row without them needs the digests
    of ``expected``, which ``header`` returns. images: ``image_id`` and ``file``; captions: ``caption_id``, ``text`` and
    ``image_id``, the image that each caption is shown with. ``attrs["lost"]``: the kind, id
    and line of the others. Raises InputError for a
    file of another data set: its digests differ and most rows do not match."""
    same_data = _digests(rows.attrs["header"]) == _digests(expected)
    by_caption = rows["kind"].isin(CAPTION_KINDS).to_numpy()
    proved = rows["caption"].where(by_caption, rows["file"]).to_numpy() != ""
    is_same = (proved | same_data) & _agree(rows, by_caption, "", images, captions)
    # The partner matters only to an action that needs it.
    needs = rows["action"].isin(["picture", "caption", "merge", "move"]).to_numpy()
    by_caption = ((rows["action"] == "caption") | (rows["kind"] == "duplicate_caption")).to_numpy()
    is_same &= ~needs | _agree(rows, by_caption, "other_", images, captions)
    lost = [f"{row.kind} {row.id} (line {row.Index})" for row in rows[~is_same].itertuples()]
    if not same_data and 2 * len(lost) > len(rows):
        now, before = (_named(text) for text in (expected, rows.attrs["header"]))
        reason = f"decisions of another data set{before}"
        if before == now:
            reason += ", or of this one before its ids changed, as they do when rows of its source are added or removed"
        raise InputError(
            f"{rows.attrs['path']}: {reason}: {len(lost)} of {len(rows)} are on pictures or captions that data set{now} does not have, {_first(lost)}"
        )
    matching = rows[is_same].copy()
    matching.attrs = rows.attrs | {"lost": lost}
    return matching


def account(rows: pd.DataFrame) -> list[str]:
    """Sentences about what was left out of ``matched`` rows and what was contradictory in them; empty if nothing."""
    lost, contradictions = rows.attrs["lost"], rows.attrs["contradictions"]
    sentences = []
    if len(lost):
        sentences.append(
            f"{len(lost)} decisions change nothing, because their pictures or captions are gone or were changed: {_first(lost)}"
        )
    if contradictions:
        sentences.append(
            f"{len(contradictions)} decisions contradict each other, the later holds: {_first(contradictions, '; ')}"
        )
    return sentences


def _first(texts: list[str], separator: str = ", ") -> str:
    return separator.join(texts[:_SHOWN]) + (f"{separator}..." if len(texts) > _SHOWN else "")


def _contradictions(rows: pd.DataFrame, finding: list[str]) -> list[str]:
    """rows: the standing decision of everybody, sorted by time."""
    people = rows[~rows["by"].str.match(rf"{AUTO}(?: |$)")]
    partner = people["other"].astype("string").fillna("").where(people["decision"] == "take", "")
    verdicts = people.assign(verdict=(people["action"] + " " + partner.astype(str)).str.strip())
    differ = verdicts.groupby(finding)["verdict"].transform("nunique") > 1
    groups = verdicts[differ].sort_values("place", kind="stable").groupby(finding, sort=False)
    return [
        f"{kind} {number}: " + ", ".join(f"{row.by or 'nobody'} {row.verdict}" for row in group.itertuples())
        for (kind, number), group in groups
    ]


def _agree(rows: pd.DataFrame, by_caption: np.ndarray, prefix: str, images: pa.Table, captions: pa.Table) -> np.ndarray:
    """Whether the thing that each row names exists and has the row's file, and its caption if it is a caption.

    by_caption: whether the id is a caption's; prefix: ``other_`` for the partner."""
    ids = rows["other" if prefix else "id"].fillna(-1).to_numpy(np.int64)
    place = pd.Index(captions["caption_id"].to_numpy()).get_indexer(ids)
    place = np.where(by_caption, place, -1)
    if len(captions):
        ids = np.where(by_caption, captions["image_id"].to_numpy()[place], ids)
    image = pd.Index(images["image_id"].to_numpy()).get_indexer(ids)
    exists = (image >= 0) & (~by_caption | (place >= 0))
    sides = (
        (f"{prefix}file", images["file"], image, exists),
        (f"{prefix}caption", captions["text"], place, exists & by_caption),
    )
    for column, texts, places, compared in sides:
        cells = rows[column].to_numpy()[compared]
        actual = texts.take(pa.array(places[compared])).to_pandas().to_numpy()
        exists[compared] &= (cells == "") | (_plain(pd.Series(cells)) == _plain(pd.Series(actual))).to_numpy()
    return exists


def _plain(texts: pd.Series) -> pd.Series:
    """Texts as a spreadsheet may leave them: single spaces, none around, and no apostrophe before a sign."""
    return _unquoted(_on_one_line(texts))


def _on_one_line(texts: pd.Series) -> pd.Series:
    plain = pc.replace_substring_regex(pa.array(texts, pa.string()), r"[\s\p{Z}]+", " ")
    return pd.Series(pc.utf8_trim(plain, " "), texts.index, dtype="str")


def _unquoted(texts: pd.Series) -> pd.Series:
    plain = pc.replace_substring_regex(pa.array(texts, pa.string()), "^'([=+@-])", r"\1")
    return pd.Series(plain, texts.index, dtype="str")


def _lines(rows: pd.DataFrame) -> str:
    """Each row on one line."""
    if unknown := [name for name in rows.columns if name not in COLUMNS]:
        raise ValueError(f"no column of decisions: {', '.join(unknown)}")
    rows = rows.reindex(columns=list(COLUMNS))
    texts = rows.loc[:, _TEXTS].astype("object").fillna("").astype("str")
    # A line break would make one row two lines, and a cell that begins with a sign is a formula to a spreadsheet.
    texts = texts.apply(_on_one_line)
    texts = texts.apply(lambda column: column.where(~column.str[:1].isin(list("=+@-")), "'" + column))
    rows = rows.assign(**texts, id=rows["id"].astype("int64"), other=rows["other"].astype("Int64"))
    return rows.to_csv(index=False, header=False, lineterminator="\n", float_format="%.6g")


def parse(path: Path, content: bytes) -> pd.DataFrame:
    """``read`` of bytes. path: for messages."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason}); save it as 'CSV UTF-8'") from error
    text = "" if _is_prefix(content) else re.sub("\r\n?", "\n", text)
    first, _, rest = text.partition("\n")
    start = _HEADER.match(first)
    if start and start[1] != "1":
        raise InputError(f"{path}: decisions of format {start[1]}; this version reads format 1; update vse-pipe")
    body, before = (rest, 1) if start else (text, 0)
    attrs = {"path": path, "header": ""}
    if start and start[2]:
        attrs["header"] = header_of(start[2], dict(zip(joins.FILES, (start[3], start[4]), strict=True)))
    if _COLUMN_LINE.startswith(body):  # nothing yet, or a writer was killed at the start
        body = _COLUMN_LINE
    separator = max(",;\t", key=body.partition("\n")[0].count)
    lines, rows = _cells(path, body, separator, before)
    if not rows:  # blank lines, or a sheet that somebody emptied
        lines, rows = [before + 1], [list(COLUMNS)]
    names = _column_names(path, rows.pop(0), lines.pop(0))
    columns = dict(enumerate(zip_longest(*rows, fillvalue="")))
    table = pd.DataFrame(columns, index=pd.Index(lines, name="line"), dtype="str")
    table = table.reindex(columns=range(max(table.shape[1], len(names))), fill_value="")
    extra = (table.iloc[:, len(names) :] != "").any(axis=1).to_numpy()
    if extra.any():
        raise InputError(f"{path} line {table.index[extra][0]}: more cells than the {len(names)} columns")
    table = table.iloc[:, : len(names)].set_axis(names, axis=1)
    table = table.reindex(columns=list(COLUMNS), fill_value="").apply(lambda column: column.str.strip())
    checked = _checked(path, table)
    checked.attrs = attrs
    return checked


def _cells(path: Path, body: str, separator: str, before: int) -> tuple[list[int], list[list[str]]]:
    """(lines, cells) of the rows that are not empty. before: lines above ``body``."""

    def rows(text: str) -> tuple[list[int], list[list[str]]]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        pairs = [(before + reader.line_num, row) for row in reader if any(row)]
        return [line for line, _ in pairs], [row for _, row in pairs]

    is_complete = body.endswith("\n")
    try:
        lines, cells = rows(body)
        if is_complete or len(cells) < 2 or _is_complete(cells[-1], cells[0]):
            return lines, cells
    except csv.Error as error:
        if is_complete:
            raise InputError(f"{path}: not a CSV file ({error}); look for a quotation mark without its pair") from error
    try:
        lines, cells = rows(body[: body.rfind("\n") + 1])
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error}); look for a quotation mark without its pair") from error
    warn(f"{path}: its last line is incomplete, as if its writer had been stopped; the line is ignored")
    return lines, cells


def _is_complete(row: list[str], names: list[str]) -> bool:
    """Whether no cell of the last row is missing or cut off."""
    width = max((place for place, name in enumerate(names, 1) if name), default=0)
    time = row[names.index("at")] if "at" in names and len(row) >= width else ""
    return len(row) >= width and re.fullmatch(r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) is not None


def _column_names(path: Path, cells: list[str], line: int) -> list[str]:
    names = [name.strip().lower() for name in cells]
    while names and not names[-1]:
        names.pop()
    for name in names:
        if name not in COLUMNS:
            raise InputError(missing(f"{path} line {line}: unknown column '{name}'", name, COLUMNS))
        if names.count(name) > 1:
            raise InputError(f"{path} line {line}: two columns '{name}'")
    for name in ("kind", "id", "decision"):
        if name not in names:
            raise InputError(f"{path} line {line}: column '{name}' is missing")
    return names


def _checked(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Texts as values. Raises InputError for the first row that cannot be meant."""

    def refuse(wrong: pd.Series, problem: str, names: tuple[str, ...] = (), column: str = "") -> None:
        if wrong.any():
            row = table[wrong].iloc[0]
            where = f"{path} line {row.name}: " + problem.format(**row)
            raise InputError(missing(where, row[column], names) if names else where)

    for column in ("kind", "proposal", "decision"):
        table[column] = table[column].str.lower()
    conflict = table["kind"].str.contains("^(?:<<<<<<<|=======|>>>>>>>)")
    refuse(conflict, "a merge conflict of git; keep the rows of both sides and remove its three marks")
    refuse(~table["kind"].isin(KINDS), "unknown kind '{kind}'", tuple(KINDS), "kind")
    refuse(~table["proposal"].isin(("", *PROPOSALS)), "unknown proposal '{proposal}'", PROPOSALS, "proposal")
    refuse(~table["decision"].isin(DECISIONS), "unknown decision '{decision}'", DECISIONS[1:], "decision")
    number = r"-?\d{1,18}(?:[.,]0+)?"
    refuse(~table["id"].str.fullmatch(number), "id '{id}' is no whole number")
    refuse(~table["other"].str.fullmatch(f"|{number}"), "other '{other}' is no whole number")
    doubt = pd.to_numeric(table["doubt"].str.replace(",", "."), errors="coerce")
    refuse((table["doubt"] != "") & ~doubt.between(0, 1), "doubt '{doubt}' is no number from 0 to 1")
    times = pd.to_datetime(table["at"].where(table["at"] != ""), utc=True, format="ISO8601", errors="coerce")
    refuse((table["at"] != "") & times.isna(), "at '{at}' is no time such as 2026-11-26T20:15:03Z")
    weighted, takes = table["decision"] == "weight", table["decision"] == "take"
    refuse(weighted & (table["kind"] != "pair"), "'weight' is a decision on a pair, not on a {kind}")
    refuse(weighted & (table["doubt"] == ""), "'weight' needs a doubt; the cell is empty")
    refuse(takes & (table["proposal"] == ""), "'take' needs a proposal; the cell is empty")
    allowed = pd.Series([(one, another) for one, names in KINDS.items() for another in names])
    pairs = pd.Series(list(zip(table["kind"], table["proposal"], strict=True)), index=table.index, dtype=object)
    refuse(takes & ~pairs.isin(allowed), "a {kind} has no proposal '{proposal}'")
    refuse(takes & (table["proposal"] != "drop") & (table["other"] == ""), "'{proposal}' needs the id in column other")
    refuse(takes & (table["id"] == table["other"]) & pairs.str[1].isin(["merge", "move"]), "id {id} is its own partner")
    numbers = {name: table[name].str.replace(r"[.,]0+$", "", regex=True) for name in ("id", "other")}
    partner = pd.to_numeric(numbers["other"].where(numbers["other"] != "")).astype("Int64")
    table[list(_TEXTS)] = table[list(_TEXTS)].apply(_unquoted)
    return table.assign(id=numbers["id"].astype("int64"), other=partner, doubt=doubt.astype("float64"))


def _digests(header: str) -> tuple[str, ...]:
    start = _HEADER.match(header)
    return (start[3], start[4]) if start and start[2] else ()


def _named(header: str) -> str:
    start = _HEADER.match(header)
    return f" '{start[2]}'" if start and start[2] else ""


def _require_same(path: Path, present: str, header: str) -> None:
    """Raises InputError where the file's header names another data set, whatever its contents."""
    if _named(present) != _named(header) and _digests(present) != _digests(header):
        raise InputError(f"{path}: holds decisions on data set{_named(present)}; give another file for{_named(header)}")


def _is_ours(content: bytes) -> bool:
    """Whether rows of ``_lines`` can follow ``content``."""
    start, columns, *_ = [*content.split(b"\n", 2), b""]
    return re.fullmatch(rb"# vse-pipe decisions 1, data set [^,\r]+, images \w+, captions \w+", start) is not None and (
        columns + b"\n" == _COLUMN_LINE.encode()
    )


def _is_prefix(content: bytes) -> bool:
    """Whether the file is empty, or its writer was killed before the end of the columns."""
    start, end, columns = content.partition(b"\n")
    return not content or (
        start.startswith(b"# vse-pipe decisions 1"[: len(start)])
        and (not end or (_COLUMN_LINE.encode() != columns and _COLUMN_LINE.encode().startswith(columns)))
    )


@contextmanager
def _locked(path: Path) -> Iterator[io.FileIO]:
    """The file, to which nobody else appends meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_current = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                continue
            if is_current:  # else it was replaced since it was opened
                yield file
                return


def _mend(path: Path, content: bytes, handle: int) -> str:
    """The text that must precede new rows, after an incomplete row of a killed writer was cut off."""
    if content.endswith(b"\n"):
        return ""
    end = content.rindex(b"\n") + 1
    last = content[end:].decode(errors="replace")
    try:
        row = next(csv.reader([last], strict=True))
    except csv.Error:
        row = []
    if _is_complete(row, list(COLUMNS)):
        return "\n"
    os.ftruncate(handle, end)
    warn(f"{path}: removed its last line, which was incomplete, as if its writer had been stopped: {last[:200]!r}")
    return ""


def _write_all(handle: int, content: bytes) -> None:
    """All bytes or none, on the disk."""
    size = os.fstat(handle).st_size
    try:
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise
