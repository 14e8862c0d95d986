"""What `vse-pipe audit` would do."""

from vse_pipe.artifacts import audit, pairs
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import Step, by_split, whole


def plan(params: Params, run: str) -> Step:
    node = params.runs[run]
    shown = by_split(paths.injected(node.dataset, node.noise) / pairs.NAME)
    return whole("audit", run, paths.audited(run), {"pairs": shown.get("train", 0)}, audit.PAIRS)
