"""What ``vse-pipe review --summary`` and ``--auto`` print."""

from vse_pipe.core import console
from vse_pipe.report.formatting import plural


def show_summary(figures: dict, as_json: bool) -> None:
    """figures: of ``ReviewDesk.summary``."""
    if as_json:
        return console.document(figures)
    columns = list(next(iter(figures["kinds"].values())))
    table = console.ruled()
    for name in ("kind", *columns):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, row in [*figures["kinds"].items(), ("all", figures)]:
        table.add_row(kind, *(f"{row[name]:,}" for name in columns))
    console.show(table)
    for name, count in figures["reviewers"].items():
        console.line(f"{name}: {plural(count, 'decision')}")
    for pair in figures["agreement"]:
        value = "undefined, both gave one answer only" if pair["kappa"] is None else f"{pair['kappa']:.3f}"
        console.line(f"{' and '.join(pair['reviewers'])}: {pair['equal']} of {pair['both']} equal, kappa {value}")
    return None


def show_automatic(counts: dict[str, int], as_json: bool) -> None:
    """counts: of ``ReviewDesk.decide``."""
    if as_json:
        return console.document({"decided": counts})
    for kind, count in counts.items():
        console.line(f"{kind}: {count:,} {'dropped' if kind == 'pair' else 'taken'}")
    return None
