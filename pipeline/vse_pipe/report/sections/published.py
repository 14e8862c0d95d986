"""Published figures next to measured ones."""

from vse_pipe.report import outputs
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Results

TITLE = "Beside published figures"


def context(results: Results, collector: Collector) -> dict | None:
    rows = outputs.collect(results)
    return {"compared": rows} if rows else None
