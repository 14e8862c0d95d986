"""Claims of papers with their verdicts."""

from pathlib import Path

from vse_pipe.report import claims
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Results

# The same number as for the intervals of evaluate.
_RESAMPLES = 1000


def context(results: Results, collector: Collector) -> dict | None:
    path = results.params.report.claims
    if path is None:
        return None
    file = claims.read(claims.PACKAGED.get(path, Path(path)))
    # A missing run is no error: the page shows the existing runs.
    verdicts = claims.judged(results.params, file, _RESAMPLES, results.params.seed, skip_unknown=True)
    rows = [claims.cells(verdict) for verdict in verdicts]
    about = {"counted": claims.counted(verdicts), "caption": claims.caption(_RESAMPLES, results.params.seed)}
    return {"title": file.title, "header": claims.HEADER, "rows": rows, **about}
