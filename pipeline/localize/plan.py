"""What `vse-pipe localize` would do."""

from pipeline.artifacts import captions, localisation
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.project.step import AGAIN, RUNS, Earlier, Step, by_split, rows_in, scaled, seconds


def plan(params: Params, run: str) -> Step:
    out = paths.localized(run)
    asked = by_split(paths.prepared(params.runs[run].dataset) / captions.NAME)
    count, before = asked.get(params.localize.split, 0), rows_in(out / localisation.RANKS)
    spent, because = seconds(count, [Earlier(out, before)])
    written = scaled(out, count / before if before else None)
    return Step("localize", run, str(out), AGAIN if before else RUNS, {"mentions": count}, written, spent, because)
