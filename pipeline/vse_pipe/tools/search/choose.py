"""Which run is searched where none is named."""

import json

from vse_pipe.artifacts import captions, embeddings
from vse_pipe.core import parquet
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.repetitions import entry

_FIGURES = "metrics.json"


def default_run(params: Params, inference: str) -> tuple[str, str]:
    """(run, why): the only one of a data set without captions, which is there to be searched; else the only one, or the one with
    the largest rsum under ``inference`` in reports/metrics.json.

    Only figures of the data that a run is embedded from count: in a clone the report may be of other data. Raises UsageError
    where there are several runs and no such figures of any, or where these are of several data sets.
    """
    known = [*params.runs, *params.ensembles]
    collections = [
        name for name in (*known, *params.transfers) if captions.absent(paths.prepared(params.dataset(name)))
    ]
    if len(collections) > 1:
        raise UsageError(f"search which pictures? give --run: {', '.join(collections)}")
    if collections:
        return collections[0], "the only one of pictures without captions"
    return best(params, inference, known)


def best(params: Params, inference: str, known: list[str]) -> tuple[str, str]:
    """As ``default_run``, of these."""
    if len(known) == 1:
        return known[0], "the only run"
    path = paths.REPORTS / _FIGURES
    figures = read_json(path) if path.is_file() else {}
    sums = {run: rsum for run in known if (rsum := _rsum(figures, run, inference)) is not None}
    ours = {run: data for run in sums if (data := _data(params, run)) == figures[entry(run)].get("data") and data}
    named = f"give --run: {', '.join(known)}"
    if not sums:
        raise UsageError(f"search which run? {path} has no rsum of any under {inference}; {named}")
    if not ours:
        raise UsageError(
            f"search which run? {path} has figures of other data than is embedded here; make it with `vse-pipe report`, or {named}"
        )
    if len(set(ours.values())) > 1:
        raise UsageError(f"search which run? those in {path} are of different data and cannot be compared; {named}")
    run = max(ours, key=sums.__getitem__)
    return run, f"the best rsum of {len(ours)} runs under {inference} in {path}, {sums[run]:.1f}"


def _rsum(figures: dict, run: str, inference: str) -> float | None:
    of_run = figures.get(entry(run))  # of a run with seeds the mean
    found = of_run.get(inference) if isinstance(of_run, dict) else None
    return found.get("rsum") if isinstance(found, dict) else None


def _data(params: Params, run: str) -> str | None:
    """Digest of what is evaluated; None where the run is not embedded, or its files do not say."""
    one = params.ensembles[run].members[0] if run in params.ensembles else run
    path = paths.embedded(one) / embeddings.IMAGES
    if not path.is_file():
        return None
    with parquet.opened(path) as file:
        data = (file.schema.metadata or {}).get(embeddings.DATA.encode(), b"{}")
    return json.loads(data).get(params.evaluate.split)
