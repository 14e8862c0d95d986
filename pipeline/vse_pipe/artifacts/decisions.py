"""data/audit/datasets/<dataset>/<noise>/findings.csv: what is wrong with a data set. decisions.csv,
in the project: what people decided about it.

Both files are CSV in UTF-8 with commas, a line with the columns, and a row for each finding or
decision. An audit leaves ``decision``, ``by`` and ``at`` empty. decisions.csv only grows, and the
last row of a finding holds. A row that cannot be read is an error with its number; an empty file
decides nothing.

- ``kind`` and ``id`` name a finding: ``pair``, ``caption`` and ``duplicate_caption`` have a
  caption_id; ``picture``, ``duplicate`` and ``leak`` have an image_id.
- ``proposal``: ``drop``; ``picture``: the caption goes to the image ``other``; ``merge``: the
  captions of ``id`` go to ``other`` and ``id`` is dropped; ``move``: the image goes to the split of
  the image ``other``.
- ``decision``: empty, ``keep``, ``drop``, ``take`` (the proposal), ``weight`` (trust 1 - doubt),
  ``undo``.
- ``sha256`` is that of the picture, or of the one that the caption is shown with, as in
  images.parquet; ``other_sha256`` of the partner's. A decision is applied where ``id`` still has
  this picture and, if it is a caption's, the text in ``caption``; a proposal needs the same of its
  partner. ``file`` is for the reader.
"""

import codecs
import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import write_text

NAME, FINDINGS = "decisions.csv", "findings.csv"
COLUMNS = (
    *("kind", "id", "doubt", "why", "proposal", "other", "file", "caption", "other_file", "other_caption"),
    *("decision", "by", "at", "sha256", "other_sha256"),
)
_TEXTS = ("why", "file", "caption", "other_file", "other_caption", "by")
# The proposals of each kind.
KINDS = {
    "pair": ("drop", "picture"),
    "caption": ("drop",),
    "picture": ("drop",),
    "duplicate": ("merge", "drop"),
    "duplicate_caption": ("merge", "drop"),
    "leak": ("move", "drop"),
}
CAPTION_KINDS = ("pair", "caption", "duplicate_caption")
COPY_KINDS = ("duplicate", "duplicate_caption", "leak")
# The column of the image that a mismatched pair shows.
SHOWN = "shown_id"
DECISIONS = ("", "keep", "drop", "take", "weight", "undo")
# A reviewer with this name, or with a number behind it, is the program.
AUTO = "auto"
TIME = "%Y-%m-%dT%H:%M:%SZ"
_WITH_PARTNER = ("picture", "merge", "move")
_FINDING = ["kind", "id"]
_COLUMN_LINE = ",".join(COLUMNS) + "\n"
_FIRST = 3


def write(path: Path, rows: pd.DataFrame) -> None:
    """Writes findings, whole or not at all. rows: ``kind``, ``id``, other ``COLUMNS``."""
    write_text(path, _COLUMN_LINE + _lines(rows))


def append(path: Path, rows: pd.DataFrame) -> None:
    """Adds decisions and returns when they are on the disk, or raises OSError and adds none.
    Several processes and threads may append at once. The file is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        start = "" if size else _COLUMN_LINE
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            start = "\n"
        content = (start + _lines(rows)).encode()
        try:
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def read(path: Path) -> pd.DataFrame:
    """All rows, in the order of the file, with the columns ``COLUMNS``; the index is the row's
    number, 2 below the columns.

    ``id`` is int64, ``other`` Int64, ``doubt`` float64 (NaN where it is empty), the rest text.
    Raises InputError with the number of the first row that cannot be read."""
    if not path.exists():
        raise InputError(f"{path} does not exist; decide on findings, or make an empty file, which decides nothing")
    memory.require_text(path)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        content = file.read().removeprefix(codecs.BOM_UTF8).strip() or _COLUMN_LINE.encode()
    types = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()), strings_can_be_null=False)
    # Without threads and in one block, so that errors have the number of their row.
    options = csv.ReadOptions(use_threads=False, block_size=len(content) + 1)
    try:
        table = csv.read_csv(pa.BufferReader(content + b"\n"), options, convert_options=types)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: {str(error).partition(chr(10))[0]}") from error
    if tuple(table.column_names) != COLUMNS:
        raise InputError(f"{path} row 1: expected the columns {','.join(COLUMNS)}")
    rows = table.to_pandas()
    return _checked(path, rows.set_axis(pd.RangeIndex(2, len(rows) + 2, name="row")))


def _checked(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Texts as values. Raises InputError for the first row that cannot be meant."""
    kind, proposal, decision = (table[name] for name in ("kind", "proposal", "decision"))
    takes, number = decision == "take", r"-?\d{1,18}"
    doubt = pd.to_numeric(table["doubt"], errors="coerce")
    proposals = [f"{name} {proposed}" for name, names in KINDS.items() for proposed in ("", *names)]
    problems = [
        (~kind.isin(KINDS), f"unknown kind '{{kind}}'; known: {', '.join(KINDS)}"),
        (~decision.isin(DECISIONS), f"unknown decision '{{decision}}'; known: {', '.join(DECISIONS[1:])}"),
        (~(kind + " " + proposal).isin(proposals), "a {kind} has no proposal '{proposal}'"),
        (~table["id"].str.fullmatch(number), "id '{id}' is no whole number"),
        (~table["other"].str.fullmatch(f"|{number}"), "other '{other}' is no whole number"),
        ((table["doubt"] != "") & ~doubt.between(0, 1), "doubt '{doubt}' is no number from 0 to 1"),
        ((decision == "weight") & ((kind != "pair") | (table["doubt"] == "")), "'weight' needs a pair with a doubt"),
        (takes & (proposal == ""), "'take' needs a proposal"),
        (takes & proposal.isin(_WITH_PARTNER) & (table["other"] == ""), "'{proposal}' needs an id in column other"),
        (takes & proposal.isin(["merge", "move"]) & (table["id"] == table["other"]), "id {id} is its own partner"),
    ]
    for is_wrong, problem in problems:
        if is_wrong.any():
            row = table[is_wrong].iloc[0]
            raise InputError(f"{path} row {row.name}: {problem.format(**row)}")
    partner = table["other"].replace("", pd.NA).astype("Int64")
    table[list(_TEXTS)] = table[list(_TEXTS)].apply(_unquoted)
    return table.assign(id=table["id"].astype("int64"), other=partner, doubt=doubt.astype("float64"))


def _lines(rows: pd.DataFrame) -> str:
    """Each row on one line."""
    rows = rows.reindex(columns=list(COLUMNS))
    texts = rows.loc[:, _TEXTS].astype("object").fillna("").astype("str").apply(_quoted)
    rows = rows.assign(**texts, id=rows["id"].astype("int64"), other=rows["other"].astype("Int64"))
    return rows.to_csv(index=False, header=False, lineterminator="\n", float_format="%.6g")


def _quoted(texts: pd.Series) -> pd.Series:
    """Texts on one line, with an apostrophe before signs of a spreadsheet's formula."""
    plain = pc.replace_substring_regex(pa.array(texts, pa.string()), r"[\s\p{Z}]+", " ")
    plain = pc.replace_substring_regex(pc.utf8_trim(plain, " "), "^([=+@-])", r"'\1")
    return pd.Series(plain, texts.index, dtype="str")


def _unquoted(texts: pd.Series) -> pd.Series:
    return texts.str.replace("^'([=+@-])", r"\1", regex=True)


def described(rows: pd.DataFrame, images: pa.Table, captions: pa.Table) -> pd.DataFrame:
    """``rows`` with what their ids stand for: ``file``, ``sha256``, ``caption``, and the same of
    the partner; empty where there is none. The caption of a picture is its first one.

    images: ``image_id``, ``file`` and ``sha256``; captions: ``caption_id``, ``text``, ``image_id``,
    and SHOWN where its pair shows another image."""
    pictures = images.select(["image_id", "file", "sha256"]).to_pandas().set_index("image_id")
    names = {"caption_id", "image_id", "text", SHOWN}.intersection(captions.column_names)
    texts = captions.select(sorted(names)).to_pandas().set_index("caption_id")
    pictured = texts.get(SHOWN, texts["image_id"])
    owners, first = texts["image_id"].astype("Int64"), texts.drop_duplicates("image_id").set_index("image_id")["text"]
    kind, columns = rows["kind"], dict[str, np.ndarray]()
    sides = ("", "id", kind.isin(CAPTION_KINDS)), ("other_", "other", kind == "duplicate_caption")
    for prefix, key, is_caption in sides:
        ids = rows[key].astype("Int64")
        image = ids.map(owners).mask(kind == "pair", ids.map(pictured)).astype("Int64").where(is_caption, ids)
        caption = ids.map(texts["text"]).where(is_caption, image.map(first))
        values = {name: image.map(pictures[name]) for name in ("file", "sha256")} | {"caption": caption}
        columns |= {prefix + name: column.astype(object).fillna("").to_numpy() for name, column in values.items()}
    return rows.assign(**columns)


@dataclass(frozen=True)
class InForce:
    """rows: the decision that holds for each finding, with the column ``action``: ``keep``,
    ``weight``, ``drop`` or the proposal that was taken. by_person: the last decision of everybody,
    which another one may overrule.

    changed, missing: names of the findings whose decisions are not applied, because their picture or
    caption is another one now, or is not there."""

    rows: pd.DataFrame
    by_person: pd.DataFrame
    changed: list[str]
    missing: list[str]


def notes(*holding: InForce) -> list[str]:
    """Sentences about what is not applied; empty if nothing."""
    names = {
        "another one now": [name for part in holding for name in part.changed],
        "not there now": [name for part in holding for name in part.missing],
    }
    return [
        f"decisions that are not applied, because their picture or caption is {reason}: {len(stale)} "
        f"({'; '.join(stale[:_FIRST])}{'; ...' * (len(stale) > _FIRST)})"
        for reason, stale in names.items()
        if stale
    ]


def in_force(rows: pd.DataFrame, is_considered: pd.Series, images: pa.Table, captions: pa.Table) -> InForce:
    """The decisions that hold. Later rows hold, and ``undo`` takes back the own decision, not that
    of others.

    rows: all of the file, as ``read`` returns them; is_considered: bool, those to look at; images,
    captions: as for ``described``. Decisions on pairs follow a picture into the one that it was
    merged with."""
    rows = rows.assign(action=rows["decision"].mask(rows["decision"] == "take", rows["proposal"]))
    merged = _last(_by_person(rows[rows["kind"] == "duplicate"], ["id", "sha256"]), ["id", "sha256"])
    merged = merged[(merged["action"] == "merge") & (merged["sha256"] != "")]
    aliases = roots(dict(zip(merged["sha256"], merged["other_sha256"], strict=True)))
    merged = merged[~merged["id"].isin(images["image_id"].to_numpy())]
    partners = roots(dict(zip(merged["id"], merged["other"], strict=True)))
    rows = rows[is_considered]
    follows = (rows["action"] == "picture") & rows["other"].isin(list(partners))
    rows = rows.assign(other=rows["other"].mask(follows, rows["other"].map(partners)))
    now = described(rows, images, captions)
    is_same = _same(rows, now, aliases)
    by_person = _by_person(rows[is_same])
    last = _last(_by_person(rows.assign(is_there=now["file"] != "")))
    is_done = (rows["action"] == "picture") & _same_digest(rows["other_sha256"], now["sha256"], aliases)
    stale = last[~(is_same | is_done)[last.index]]
    names = stale["kind"] + " " + stale["id"].astype("str")
    names += " of " + stale["file"] + ", row " + stale.index.astype("str")
    return InForce(_last(by_person), by_person, names[stale["is_there"]].tolist(), names[~stale["is_there"]].tolist())


def current(findings: pd.DataFrame, images: pa.Table, captions: pa.Table) -> pd.Series:
    """bool: findings of the same pictures and captions. images, captions: as before."""
    proposed = findings.assign(action=findings["proposal"])
    return _same(proposed, described(proposed, images, captions), {})


def _by_person(rows: pd.DataFrame, finding: Sequence[str] = _FINDING) -> pd.DataFrame:
    """The last decision of everybody on each finding, if it was not taken back."""
    rows = rows[rows["decision"] != ""].drop_duplicates([*finding, "by"], keep="last")
    return rows[rows["decision"] != "undo"]


def _last(rows: pd.DataFrame, finding: Sequence[str] = _FINDING) -> pd.DataFrame:
    return rows.drop_duplicates(list(finding), keep="last")


def _same(rows: pd.DataFrame, now: pd.DataFrame, aliases: Mapping[str, str]) -> pd.Series:
    """bool: whether each row speaks of what its ids stand for. now: ``rows`` as ``described``;
    rows: with the column ``action``; aliases: digests of pictures that count as another one."""

    def is_same(prefix: str, by_caption: pd.Series) -> pd.Series:
        before, after = (_quoted(table[f"{prefix}caption"]) for table in (rows, now))
        pictures = _same_digest(rows[f"{prefix}sha256"], now[f"{prefix}sha256"], aliases)
        return pictures & (~by_caption | (before == after))

    # A copy that was kept stays where the other one is gone.
    is_kept_alone = (rows["action"] == "keep") & (now["other_sha256"] == "")
    is_copy = rows["kind"].isin(COPY_KINDS) & rows["other"].notna() & ~is_kept_alone
    has_partner = rows["action"].isin(_WITH_PARTNER) | is_copy
    is_same_partner = ~has_partner | is_same("other_", rows["kind"] == "duplicate_caption")
    return is_same("", rows["kind"].isin(CAPTION_KINDS)) & is_same_partner


def _same_digest(before: pd.Series, now: pd.Series, aliases: Mapping[str, str]) -> pd.Series:
    earlier, later = (digests.map(lambda digest: aliases.get(digest, digest)) for digests in (before, now))
    return (now != "") & (earlier == later)


def roots(parents: Mapping) -> dict:
    """The end of each key's chain. A key whose chain leads back to it is left out."""
    ends = {}
    for start in parents:
        chain = [start]
        while (following := parents.get(chain[-1])) is not None and following not in chain:
            chain.append(following)
        # Every chain into a circle ends at the same member of it.
        end = chain[-1] if following is None else min(chain[chain.index(following) :])
        if end != start:
            ends[start] = end
    return ends


def in_plain_form(texts: pa.Array) -> pa.Array:
    """The texts in lower case, letters and digits only: two captions of one form say the same."""
    lowered = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC"))
    return pc.utf8_trim(pc.replace_substring_regex(lowered, r"[^\p{L}\p{M}\p{N}]+", " "), " ")
