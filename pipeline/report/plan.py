"""What `vse-pipe report` would do."""

from pipeline.artifacts import evaluation
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.project.step import AGAIN, RUNS, Earlier, Step, blocked, seconds, size

_HISTORY = "history.csv"
# Where the command keeps its lock, and its time beside it.
_BESIDE = paths.DATA / "report"


def plan(params: Params) -> Step:
    page = paths.REPORTS / "index.html"
    names = [(run, one) for run in params.evaluated() for one in params.grid.inferences]
    needed = [paths.evaluated(run, one) / evaluation.METRICS for run, one in names]
    needed += [paths.trained(run) / _HISTORY for run in params.runs]
    stopped = blocked("report", "", page, needed)
    if stopped:
        return stopped
    rows = {"runs": len(params.evaluated()), "criteria": len(params.grid.inferences)}
    spent, because = seconds(1.0, [Earlier(_BESIDE, 1.0)])
    written = size(page) if page.is_file() else None
    return Step("report", "", str(page), AGAIN if page.is_file() else RUNS, rows, written, spent, because)
