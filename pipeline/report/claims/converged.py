"""Whether a training had converged when it ended, by its history."""

import pandas as pd

from pipeline.artifacts import evaluation, history
from pipeline.project import paths
from pipeline.project.params.typed import Params

# The last epochs, and by how many points of rsum they may be better than all before them.
WINDOW, RISE = 3, 1.0
# Solved by its first epoch, without steps that could be too few.
_SOLVED = ("cca",)


def problem(params: Params, model: str) -> str | None:
    """Why nothing should be said of a run, a repetition or an ensemble; None where it has converged.

    It has not where its best epoch on val is the last one, or where rsum on val was still rising: the best of the last
    ``WINDOW`` epochs is more than ``RISE`` points above the best before them.
    Raises InputError for a history that cannot be used.
    """
    ensemble = params.ensembles.get(model)
    for run in (ensemble.first, ensemble.second) if ensemble else (model,):
        if run in params.runs and params.runs[run].scheme.name in _SOLVED:
            continue
        folder = paths.trained(run)
        if not (folder / history.NAME).is_file():
            return f"{run}: no {folder / history.NAME}, so that nobody knows whether it has converged"
        if found := _unfinished(history.read(folder)):
            return f"{run} has not converged: {found}"
    return None


def _unfinished(epochs: pd.DataFrame) -> str | None:
    rsum = epochs["val_rsum"].to_numpy()
    if rsum.argmax() == len(rsum) - 1:
        return f"its best epoch on val is the last one, {len(rsum)}"
    last = min(WINDOW, len(rsum) - 1)
    rise = rsum[-last:].max() - rsum[:-last].max()
    return f"its best rsum on val rose by {rise:.1f} in the last {last} epochs" if rise > RISE else None


def below(params: Params, run: str, criterion: str, floor: float | None) -> str | None:
    """Why a run is too weak to say anything with: its rsum under nns, or under ``criterion`` where it has no other, is below
    ``floor``; the mean over its seeds."""
    if floor is None:
        return None
    models = params.models(run)
    plain = all((paths.evaluated(model, "nns") / evaluation.METRICS).is_file() for model in models)
    under = "nns" if plain else criterion
    found = [evaluation.read_metrics(paths.evaluated(model, under))["rsum"] for model in models]
    mean = sum(found) / len(found)
    return f"{run} is below the floor: rsum {mean:.1f} under {under}, asked is {floor:g}" if mean < floor else None
