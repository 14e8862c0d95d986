"""What `vse-pipe inject --teacher` would do."""

from vse_pipe.artifacts import pairs
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, RUNS, Earlier, Step, rows_in, scaled, seconds


def plan(params: Params, name: str) -> Step:
    node = params.teachers[name]
    out, base = paths.injected(node.dataset, name), paths.injected(node.dataset, node.noise)
    count, before = rows_in(base / pairs.NAME), rows_in(out / pairs.NAME)
    spent, because = seconds(count, [Earlier(out, before)])
    written = scaled(out, count / before if count and before else None)
    state = AGAIN if before else RUNS
    return Step("inject_teachers", name, str(out), state, {"pairs": count or 0}, written, spent, because)
