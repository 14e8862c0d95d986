"""What `vse-pipe inject` would do."""

from vse_pipe.artifacts import captions, pairs
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, RUNS, Earlier, Step, rows_in, scaled, seconds


def plan(params: Params, noise: str) -> Step:
    node = params.noises[noise]
    out, source = paths.injected(node.dataset, noise), paths.prepared(node.dataset)
    count, before = rows_in(source / captions.NAME), rows_in(out / pairs.NAME)
    others = [paths.injected(other.dataset, name) for name, other in params.noises.items()]
    spent, because = seconds(count, [Earlier(one, rows_in(one / pairs.NAME)) for one in (out, *others)])
    written = scaled(out, count / before if count and before else None)
    return Step("inject", noise, str(out), AGAIN if before else RUNS, {"pairs": count or 0}, written, spent, because)
