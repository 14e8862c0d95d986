"""Figures of a localisation on the terminal: a table for people or one JSON document for programs."""

from vse_pipe.core.console import document, ruled, stdout
from vse_pipe.localize.engine.figures import ALL

_COLUMNS = {"r@1": "R@1", "r@5": "R@5", "r@10": "R@10", "bound": "bound", "map": "mAP", "random_r@1": "random R@1"}


def show(metrics: dict, as_json: bool) -> None:
    """A row for all mentions and for each type."""
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column(f"run {metrics['run']}, IoU >= {metrics['threshold']:g}", overflow="fold")
    for title in ("mentions", *_COLUMNS.values()):
        table.add_column(title, justify="right", no_wrap=True)
    for name, figures in [(ALL, metrics[ALL]), *metrics["types"].items()]:
        table.add_row(name, f"{figures['mentions']:,}", *(f"{figures[key]:.1f}" for key in _COLUMNS))
    stdout.print(table)
