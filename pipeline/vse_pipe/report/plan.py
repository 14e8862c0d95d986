"""What `vse-pipe report` would do."""

from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, RUNS, Earlier, Step, seconds, size, waiting
from vse_pipe.report.engine.present import present

_HISTORY = "history.csv"
# Where the command keeps its lock, and its time beside it.
_BESIDE = paths.DATA / "report"


def plan(params: Params) -> Step:
    page = paths.REPORTS / "index.html"
    there = present(params)
    if there.missing and not there.inferences and (blocked := waiting(params, "report", "")):
        return blocked
    rows = {"runs": len(there.inferences), "criteria": len(there.params.grid.inferences)}
    spent, because = seconds(1.0, [Earlier(_BESIDE, 1.0)])
    written = size(page) if page.is_file() else None
    return Step("report", "", str(page), AGAIN if page.is_file() else RUNS, rows, written, spent, because)
