"""Listings of papers and their rows, and a row's overlay as YAML with the published figures."""

import io
from typing import TYPE_CHECKING

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from vse_pipe.core import console
from vse_pipe.core.console import line, ruled
from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import RECALLS, Block, Entry
from vse_pipe.papers.overlay import label, needs

if TYPE_CHECKING:
    from rich.console import JustifyMethod


PROTOCOLS = {
    "1k": "all test images",
    "5k": "all 5,000 test images",
    "c1": "the first 1,000 test images",
    "c2": "mean over five folds of 1,000 test images",
    "phrases": "phrases among the boxes of their image",
}


def text(entry: Entry, overlay: dict) -> str:
    """YAML that ``vse-pipe apply`` takes as well."""
    lines = [f"# {line}" for line in heading(entry)]
    editor = YAML()
    editor.width = 1000
    editor.default_flow_style = None  # maps of plain values stand on one line
    stream = io.StringIO()
    editor.dump(_quoted({"replace": "nodes", **overlay}), stream)
    return "\n".join([*lines, stream.getvalue()])


def heading(entry: Entry) -> list[str]:
    """Paper, table, method, data and protocol; the published figures; assumptions and notes."""
    paper = catalogue.load(entry.paper)
    tables = " and ".join([entry.block.table, *entry.row.also])
    lines = [
        f"{paper.title} ({paper.venue}), Table {tables}, row {entry.id}",
        f"{entry.row.method}; {entry.block.title or entry.block.dataset}: {PROTOCOLS[entry.block.protocol]}",
        *published(entry),
    ]
    if entry.row.assumed:
        lines.append(f"assumed: {paper.remarks[entry.row.assumed]}")
    return lines + ([f"note: {entry.row.note}"] if entry.row.note else [])


def published(entry: Entry) -> list[str]:
    """The published figures, a line for each direction."""
    groups: dict[str, list[str]] = {}
    for name, value in entry.published.items():
        way = name.rpartition(".")[0]
        groups.setdefault(way, []).append(f"{label(name)} {figure_text(value)}".removeprefix(f"{way} "))
    return [f"published{f' {way}' if way else ''}: {', '.join(figures)}" for way, figures in groups.items()]


def figure_text(value: float) -> str:
    """The figure with one decimal, or two where it has them."""
    return f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}"


def _quoted(value: object) -> object:
    """Texts with a colon in quotes, because DVC's parser refuses it in a map of one line."""
    if isinstance(value, dict):
        return {key: _quoted(inner) for key, inner in value.items()}
    return SingleQuotedScalarString(value) if isinstance(value, str) and ":" in value else value


def papers() -> list[dict]:
    """For each paper: name, title, venue, numbers of rows, with settings (``own``), runnable."""
    return [_paper(name) for name in catalogue.names()]


def _paper(name: str) -> dict:
    content, entries = catalogue.load(name), catalogue.entries(name)
    trained = [entry for entry in entries if entry.settings is not None]
    kinds = {"rows": entries, "own": trained, "runs": [entry for entry in trained if not needs(entry)]}
    numbers = {kind: len({entry.row.id for entry in part}) for kind, part in kinds.items()}
    return {"paper": name, "title": content.title, "venue": content.venue, **numbers}


def rows(paper: str) -> list[dict]:
    """For each row and variant: its description, its figures, and members that are lacking."""
    return [_row(entry) for entry in catalogue.entries(paper)]


def _row(entry: Entry) -> dict:
    row, block, remarks = entry.row, entry.block, catalogue.load(entry.paper).remarks
    chosen = entry.settings
    return {
        "row": entry.id,
        "tables": [block.table, *row.also],
        "method": row.method,
        "dataset": block.dataset,
        "protocol": block.protocol,
        "inference": row.inference,
        "quoted": row.quoted,
        "published": entry.published,
        "printed_rsum_differs": row.printed_rsum_differs,
        "assumed": remarks.get(row.assumed, ""),
        "note": row.note,
        "settings": None if chosen is None else chosen.model_dump(exclude_none=True),
        "needs": needs(entry),
    }


def show_papers(rows: list[dict]) -> None:
    table = _table("", paper="left", title="left", rows="right", own="right", runs="right")
    for row in rows:
        title = f"{row['title']} ({row['venue']})"
        table.add_row(row["paper"], title, *(str(row[key]) for key in ("rows", "own", "runs")))
    console.show(table)
    line("own: rows with settings, the others only quote; runs: own rows that this version can run")


def show_rows(paper: str) -> None:
    """Print a table of recalls and rsum for each block; ``--json`` has all figures."""
    content = catalogue.load(paper)
    entries = catalogue.entries(paper)
    line(f"{content.title} ({content.authors}; {content.venue})")
    for block in content.blocks:
        console.show(_of_block(block, [entry for entry in entries if entry.block is block]))
    for note in content.notes:
        line(f"- {note}")
    line(f"runs: `vse-pipe papers {paper} ROW` shows the parameters, `--apply` writes them into params.yaml")


def _of_block(block: Block, entries: list[Entry]):
    names = [name for name in (*RECALLS, "rsum", *block.columns) if name in block.columns]
    names = [name for name in dict.fromkeys(names) if not name.endswith(("medr", "meanr", "hs_sum"))]
    title = f"Table {block.table}, {block.title or block.dataset}: {PROTOCOLS[block.protocol]}"
    title += "".join(f"; own rows also :{name}" for name in block.variants)
    right: dict[str, JustifyMethod] = dict.fromkeys(names, "right")
    table = _table(title, row="left", method="left", **right, state="left")
    for column, name in zip(table.columns[2:], names, strict=False):
        column.header, column.no_wrap = label(name).replace(" ", "\n", 1), True
    table.columns[-1].header = ""
    for row in block.rows:
        entry = next(entry for entry in entries if entry.row is row)
        figures = (figure_text(entry.published[name]) if name in entry.published else "" for name in names)
        table.add_row(row.id, row.method, *figures, _state(entry))
    return table


def _state(base: Entry) -> str:
    """Whether a row runs, and which of its own variants do."""
    if base.settings is None:
        return "quoted"
    runs = [f":{name}" for name in base.row.variants]
    return f"needs {needs(base)[0]}" if needs(base) else ", ".join(["runs", *runs])


def _table(title: str, /, **columns: "JustifyMethod"):
    table = ruled(title=title or None)
    for name, justify in columns.items():
        table.add_column(name, justify=justify, no_wrap=name == "row" or justify == "right")
    return table
