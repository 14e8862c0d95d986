"""report: reports/metrics.json for git, reports/plots/*.csv for DVC, reports/index.html for people, and beside it, known to
neither, reports/timings.html."""

from collections.abc import Sized
from pathlib import Path

from pipeline.core.console import say, warn
from pipeline.core.files import write_csv, write_json, write_text
from pipeline.core.locks import claim
from pipeline.pictures.read import shown
from pipeline.project import paths, timing
from pipeline.project.params.typed import Params
from pipeline.report.engine import formatting, outputs, sweeps, timings
from pipeline.report.engine.collector import Collector
from pipeline.report.engine.page import render
from pipeline.report.engine.reading import read

_PLURALS = {"criterion": "criteria"}


def report(params: Params) -> Path:
    """Write the report on every run and criterion that params names and return the page's path.

    Everything is computed before the first file is written. metrics.json holds figures only, no times and no paths:
    the same evaluations give the same bytes. Raises InputError when an evaluation, a history or a prepared data set
    is missing, stale or not finite.
    """
    with claim(paths.REPORT):
        results = read(params)
        tables = {
            "rsum": outputs.rsum,
            "history": outputs.history,
            "occurrence": outputs.occurrence,
            "sweeps": sweeps.table,
        }
        plots = {name: make(results) for name, make in tables.items()}
        figures = outputs.metrics(results)
        collector = Collector(shown, params.report.thumbnail)
        html = render(results, collector)
        write_json(paths.REPORTS / "metrics.json", figures)
        for name, table in plots.items():
            write_csv(paths.REPORTS / "plots" / f"{name}.csv", table)
        page = paths.REPORTS / "index.html"
        write_text(page, html)
        spent = timings.rows(params, timing.of)
        write_text(paths.REPORTS / timings.NAME, timings.render(spent, params.report.title))
    if collector.unreadable:
        warn(
            f"{len(collector.unreadable)} pictures cannot be read, the first is {collector.unreadable[0]}; the page says so"
        )
    counted: list[tuple[str, Sized]] = [
        ("run", params.runs),
        ("ensemble", params.ensembles),
        ("criterion", params.grid.inferences),
    ]
    runs, ensembles, criteria = (formatting.plural(len(of), word, _PLURALS.get(word)) for word, of in counted)
    ranked = f"{runs} and {ensembles}" if params.ensembles else runs
    say(f"report: {ranked} under {criteria}, {page} ({len(html.encode()) / 1e6:.1f} MB)")
    return page
