"""Published figures beside those measured here."""

from vse_pipe.report.engine import published
from vse_pipe.report.engine.collector import Collector
from vse_pipe.report.engine.results import Results

TITLE = "Beside published figures"


def context(results: Results, collector: Collector) -> dict | None:
    found = published.collect(results)
    return {"compared": found} if found else None
