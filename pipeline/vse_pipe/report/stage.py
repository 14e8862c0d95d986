"""report writes reports/metrics.json for git, reports/plots/*.csv for DVC, and index.html and timings.html for
people."""

import contextlib
import os
from collections.abc import Sized
from pathlib import Path

from vse_pipe.core.console import say, warn
from vse_pipe.core.files import csv_text, json_text, whole_file
from vse_pipe.core.locks import claim
from vse_pipe.pictures.images import page_bytes
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.report import formatting, outputs, settings
from vse_pipe.report import page as report_page
from vse_pipe.report.page import render, title
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import missing_lines, read

_PLURALS = {"criterion": "criteria"}


def report(params: Params) -> Path:
    """Write the report on every run and criterion of params; return the page's path.

    All files change together. metrics.json holds figures only, no times and no paths, so the same evaluations give the
    same bytes. Missing outputs are named by a warning and on the page. Raises as ``reading.read``."""
    with claim(paths.REPORT):
        results = read(params)
        tables = {
            "rsum": outputs.rsum,
            "history": outputs.history,
            "occurrence": outputs.occurrence,
            "sweeps": settings.table,
        }
        plots = {name: make(results) for name, make in tables.items()}
        figures = outputs.metrics(results)
        collector = Collector(page_bytes, params.report.thumbnail)
        html = render(results, collector)
        spent = report_page.rows(params)
        page = paths.REPORTS / "index.html"
        contents = {paths.REPORTS / "metrics.json": json_text(figures), page: html}
        contents |= {paths.REPORTS / "plots" / f"{name}.csv": csv_text(table) for name, table in plots.items()}
        contents[paths.REPORTS / report_page.NAME] = report_page.render_timings(spent, title(params))
        _write_together(contents)
    for line in missing_lines(results.missing):
        warn(f"not in the report: {line}")
    if collector.unreadable:
        warn(
            f"{len(collector.unreadable)} pictures cannot be read, the first is {collector.unreadable[0]}; the page says so"
        )
    counted: list[tuple[str, Sized]] = [
        ("run", results.params.runs),
        ("ensemble", results.params.ensembles),
        ("transfer", results.params.transfers),
        ("criterion", results.params.grid.inferences),
    ]
    counts = [formatting.plural(len(names), word, _PLURALS.get(word)) for word, names in counted if names]
    summary = "nothing to measure, for no data set has captions"
    if results.groups:
        summary = f"{' and '.join(counts[:-1])} under {counts[-1]}"
    say(f"report: {summary}, {page} ({len(html.encode()) / 1e6:.1f} MB)")
    return page


def _write_together(contents: dict[Path, str]) -> None:
    """Every file is complete on the disk before the first one replaces its predecessor."""
    with contextlib.ExitStack() as stack:
        for path, text in contents.items():
            content = text.encode()
            with stack.enter_context(whole_file(path, len(content))).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
