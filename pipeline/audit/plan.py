"""What `vse-pipe audit` would do."""

from pipeline.artifacts import audit, pairs
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.project.step import AGAIN, RUNS, Earlier, Step, by_split, rows_in, scaled, seconds


def plan(params: Params, run: str) -> Step:
    node, out = params.runs[run], paths.audited(run)
    shown = paths.injected(node.dataset, node.noise) / pairs.NAME
    count, before = by_split(shown).get("train", 0), rows_in(out / audit.PAIRS)
    spent, because = seconds(count, [Earlier(out, before)])
    written = scaled(out, count / before if before else None)
    return Step("audit", run, str(out), AGAIN if before else RUNS, {"pairs": count}, written, spent, because)
