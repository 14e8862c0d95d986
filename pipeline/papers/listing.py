"""Papers and rows as tables for people and as documents for programs."""

from pipeline.papers import catalogue
from pipeline.papers.catalogue import Entry
from pipeline.papers.compare import label
from pipeline.papers.overlay import needs

_SHOWN = ("i2t.r1", "i2t.r5", "i2t.r10", "t2i.r1", "t2i.r5", "t2i.r10", "rsum")


def papers() -> list[dict]:
    """One a paper: name, title, venue, and how many rows it has, of its own and that this version can run."""
    found = []
    for name in catalogue.names():
        content, rows = catalogue.load(name), [one for one in catalogue.entries(name) if ":" not in one.id]
        own = [one for one in rows if one.settings is not None]
        found.append(
            {
                "paper": name,
                "title": content.title,
                "venue": content.venue,
                "rows": len(rows),
                "own": len(own),
                "runs": sum(not needs(one) for one in own),
            }
        )
    return found


def rows(paper: str) -> list[dict]:
    """One a row and variant, as the paper has them: what it is, what was printed, and what this version lacks for it."""
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


def show_papers(found: list[dict]) -> None:
    table = _table(paper="left", title="left", venue="left", rows="right", own="right", runs="right")
    for one in found:
        table.add_row(*(str(one[key]) for key in ("paper", "title", "venue", "rows", "own", "runs")))
    table.caption = "own: rows that the authors trained, the others are quoted; runs: those that this version can run"
    _print(table)


def show_rows(paper: str, found: list[dict]) -> None:
    """The recalls and rsum of each row; every figure is in ``--json`` and above the row's overlay."""
    names = [name for name in _SHOWN if any(name in one["published"] for one in found)]
    names += sorted({name for one in found for name in one["published"] if name.startswith("phrase.")})
    table = _table(row="left", method="left", **{"data set": "left", "as": "left"}, **dict.fromkeys(names, "right"))
    for column, name in zip(table.columns[4:], names, strict=True):
        column.header = label(name).replace(" ", "\n", 1)
    table.add_column("", justify="left", overflow="fold")
    for one in found:
        figures = [f"{one['published'][name]:g}" if name in one["published"] else "" for name in names]
        state = "quoted" if one["quoted"] else "needs " + ", ".join(one["needs"]) if one["needs"] else "runs"
        table.add_row(one["row"], one["method"], one["dataset"], one["protocol"], *figures, state)
    table.caption = "\n".join(["runs: `vse-pipe papers PAPER ROW` shows its parameters", *catalogue.load(paper).notes])
    _print(table)


def _table(**columns: str):
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption_justify="left")
    for name, justify in columns.items():
        table.add_column(name, justify=justify, overflow="fold")
    return table


def _print(table) -> None:
    from pipeline.console import stdout

    stdout.print(table, markup=False)
