"""Published figures beside those measured here."""

from pipeline.report.engine import published
from pipeline.report.engine.collector import Collector
from pipeline.report.engine.results import Results

TITLE = "Beside published figures"


def context(results: Results, collector: Collector) -> dict | None:
    found = published.collect(results)
    return {"compared": found} if found else None
