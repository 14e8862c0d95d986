"""What `vse-pipe localize` would do."""

from vse_pipe.artifacts import captions, localisation
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import Step, by_split, whole


def plan(params: Params, run: str) -> Step:
    asked = by_split(paths.prepared(params.runs[run].dataset) / captions.NAME)
    mentions = {"mentions": asked.get(params.localize.split, 0)}
    return whole("localize", run, paths.localized(run), mentions, localisation.RANKS)
