"""The figures of compositional sets on the terminal."""

from vse_pipe.core.console import document, line, ruled, stdout


def show(figures: dict, as_json: bool) -> None:
    """Percentages are 0 to 100."""
    if as_json:
        document(figures)
        return
    scores = list(figures["chance"])
    table = ruled()
    table.add_column("category")
    for name in ("sets", *scores):
        table.add_column(name, justify="right", no_wrap=True)
    rows = {"all": figures, **figures.get("categories", {})}
    for name, of in rows.items():
        table.add_row(name, str(of["sets"]), *(_with_ends(of, score) for score in scores))
    table.add_row("chance", "", *(f"{figures['chance'][score]:.1f}" for score in scores))
    stdout.print(table)
    line(f"{figures['file']}: share of sets in percent, in brackets the 95% interval; an equal score is no preference")


def _with_ends(figures: dict, score: str) -> str:
    low, high = figures["intervals"][score]
    return f"{figures[score]:.1f} [{low:.1f}, {high:.1f}]"
