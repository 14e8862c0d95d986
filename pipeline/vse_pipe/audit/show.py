"""The audit on the terminal: a table for people or one JSON document for programs."""

from vse_pipe.core.console import document, ruled, stdout

_ROWS = (
    ("training pairs", "pairs", "{:,}"),
    ("flagged as mismatched", "flagged", "{:,}"),
    ("mismatched in truth", "mismatched", "{:,}"),
    ("AUC", "auc", "{:.3f}"),
    ("average precision", "average_precision", "{:.3f}"),
    ("precision", "precision", "{:.3f}"),
    ("recall", "recall", "{:.3f}"),
    ("partners sought in", "partners_from", "{}"),
    ("rematched caption right", "rematched_caption_right", "{:.1%}"),
    ("rematched image right", "rematched_image_right", "{:.1%}"),
)


_PARTNERS = {"all": "all pairs", "batch": "the pair's batch"}


def show(metrics: dict, as_json: bool) -> None:
    """Figures against the truth are left out where nobody knows it; a dash where one is not defined."""
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column(f"run {metrics['run']}", overflow="fold")
    table.add_column(f"threshold {metrics['threshold']:g}", justify="right", no_wrap=True)
    for title, key, form in _ROWS:
        if key in metrics:
            value = _PARTNERS[metrics[key]] if key == "partners_from" else metrics[key]
            table.add_row(title, "-" if value is None else form.format(value))
    for one in metrics.get("ranked", []):
        true = "" if one["precision"] is None else f", {one['precision']:.0%} in truth"
        table.add_row(f"mismatched of the first {one['first']:,} by loss", f"about {one['estimated']:.0%}{true}")
    stdout.print(table)
