"""The figures of a TREC run on the terminal."""

from vse_pipe.core.console import document, line, ruled, stdout

_COUNTS = ("queries", "unanswered", "unjudged")


def show(metrics: dict, as_json: bool) -> None:
    """Percentages are 0 to 100."""
    if as_json:
        document(metrics)
        return
    figures = {name: value for name, value in metrics.items() if isinstance(value, float)}
    table = ruled()
    table.add_column("measure")
    table.add_column("%", justify="right", no_wrap=True)
    for name, value in figures.items():
        table.add_row(name, f"{value:.2f}")
    stdout.print(table)
    line(
        f"{metrics['run']}: {metrics['queries']} queries, ties {metrics['ties']}; r@K: share of queries with a correct item"
    )
    if metrics["unanswered"]:
        line(f"{metrics['unanswered']} of them have no answer in the run and count as nothing found")
    if metrics["unjudged"]:
        line(
            f"{metrics['unjudged']} queries of the run have no correct item in {metrics['qrels']} and are in no figure"
        )
