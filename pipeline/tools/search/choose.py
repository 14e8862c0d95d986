"""Which run is searched where none is named."""

from pipeline.core.errors import UsageError
from pipeline.core.files import read_json
from pipeline.project import paths
from pipeline.project.params.typed import Params

_FIGURES = "metrics.json"


def default_run(params: Params, inference: str) -> tuple[str, str]:
    """(run, why): the only one, else the one with the largest rsum under ``inference`` in reports/metrics.json.

    Raises UsageError where there are several and the report has no figures of any.
    """
    known = params.evaluated()
    if len(known) == 1:
        return known[0], "the only run"
    path = paths.REPORTS / _FIGURES
    figures = read_json(path) if path.is_file() else {}
    sums = {run: rsum for run in known if (rsum := _rsum(figures, run, inference)) is not None}
    if not sums:
        raise UsageError(
            f"search which run? {path} has no rsum of any under {inference}; give --run: {', '.join(known)}"
        )
    run = max(sums, key=sums.__getitem__)
    return run, f"the best rsum of {len(sums)} runs under {inference} in {path}, {sums[run]:.1f}"


def _rsum(figures: dict, run: str, inference: str) -> float | None:
    of_run = figures.get(run)
    found = of_run.get(inference) if isinstance(of_run, dict) else None
    return found.get("rsum") if isinstance(found, dict) else None
