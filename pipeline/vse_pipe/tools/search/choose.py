"""The run to search if the user names none."""

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
    """(run, reason): the only run on a data set without captions, else the only run, else the run with the largest rsum
    under ``inference`` in reports/metrics.json.

    Figures count only if they belong to the embedded data: in a clone the report can describe other data. Raises
    UsageError if several runs exist and none has such figures, or if the figures belong to several data sets.
    """
    names = [*params.runs, *params.ensembles]
    folders = {name: paths.prepared(params.dataset(name)) for name in (*names, *params.transfers)}
    collections = [name for name, folder in folders.items() if captions.absent(folder)]
    if len(collections) > 1:
        raise UsageError(f"search which pictures? give --run: {', '.join(collections)}")
    if collections:
        return collections[0], "the only one of pictures without captions"
    return best(params, inference, names)


def best(params: Params, inference: str, names: list[str]) -> tuple[str, str]:
    """(run, reason) as ``default_run``, among the runs ``names``."""
    if len(names) == 1:
        return names[0], "the only run"
    path = paths.REPORTS / _FIGURES
    figures = read_json(path) if path.is_file() else {}
    sums = {run: rsum for run in names if (rsum := _rsum(figures, run, inference)) is not None}
    current = {run: data for run in sums if (data := _data(params, run)) == figures[entry(run)].get("data") and data}
    advice = f"give --run: {', '.join(names)}"
    if not sums:
        raise UsageError(f"search which run? {path} has no rsum of any under {inference}; {advice}")
    if not current:
        raise UsageError(
            f"search which run? {path} has figures of other data than is embedded here; make it with `vse-pipe report`, or {advice}"
        )
    if len(set(current.values())) > 1:
        raise UsageError(f"search which run? those in {path} are of different data and cannot be compared; {advice}")
    run = max(current, key=sums.__getitem__)
    return run, f"the best rsum of {len(current)} runs under {inference} in {path}, {sums[run]:.1f}"


def _rsum(figures: dict, run: str, inference: str) -> float | None:
    by_criterion = figures.get(entry(run))  # a run with seeds has its mean there
    metrics = by_criterion.get(inference) if isinstance(by_criterion, dict) else None
    return metrics.get("rsum") if isinstance(metrics, dict) else None


def _data(params: Params, run: str) -> str | None:
    """Digest of the data of ``evaluate.split``; None if the run is not embedded, or its files have no digest."""
    member = params.ensembles[run].members[0] if run in params.ensembles else run
    path = paths.embedded(member) / embeddings.IMAGES
    if not path.is_file():
        return None
    with parquet.opened(path) as file:
        data = (file.schema.metadata or {}).get(embeddings.DATA.encode(), b"{}")
    return json.loads(data).get(params.evaluate.split)
