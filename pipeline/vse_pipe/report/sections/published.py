"""Published figures next to measured ones."""

from vse_pipe.report import beside
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Results


def context(results: Results, collector: Collector) -> dict | None:
    rows = beside.collect(results)
    return {"compared": rows} if rows else None
