"""What `vse-pipe localize` would do."""

from pipeline.artifacts import captions, localisation
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.project.step import Step, by_split, whole


def plan(params: Params, run: str) -> Step:
    asked = by_split(paths.prepared(params.runs[run].dataset) / captions.NAME)
    mentions = {"mentions": asked.get(params.localize.split, 0)}
    return whole("localize", run, paths.localized(run), mentions, localisation.RANKS)
