"""What `vse-pipe audit` would do."""

from pipeline.artifacts import audit, pairs
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.project.step import Step, by_split, whole


def plan(params: Params, run: str) -> Step:
    node = params.runs[run]
    shown = by_split(paths.injected(node.dataset, node.noise) / pairs.NAME)
    return whole("audit", run, paths.audited(run), {"pairs": shown.get("train", 0)}, audit.PAIRS)
