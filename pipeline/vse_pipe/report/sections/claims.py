"""Claims of papers beside what was measured here."""

from pathlib import Path

from vse_pipe.report.claims import cells, schema, verdict
from vse_pipe.report.engine.collector import Collector
from vse_pipe.report.engine.results import Results

TITLE = "Claims"
# As those of evaluate's intervals.
_RESAMPLES = 1000


def context(results: Results, collector: Collector) -> dict | None:
    path = results.params.report.claims
    if path is None:
        return None
    file = schema.read(schema.PACKAGED.get(path, Path(path)))
    # A run that is not there yet is no error: the page shows what there is.
    found = verdict.judged(results.params, file, _RESAMPLES, results.params.seed, skip_unknown=True)
    rows = [cells.cells(one) for one in found]
    about = {"counted": cells.counted(found), "caption": cells.caption(_RESAMPLES, results.params.seed)}
    return {"title": file.title, "header": cells.HEADER, "rows": rows, **about}
