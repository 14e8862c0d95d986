"""Whether a training had converged when it ended, by its history."""

from pipeline.artifacts import evaluation, history
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.ranking.metrics.convergence import converged

# Solved by its first epoch, without steps that could be too few.
_SOLVED = ("cca",)


def problem(params: Params, model: str) -> str | None:
    """Why nothing should be said of a run, a repetition or an ensemble; None where it has converged.

    The rule is ``ranking.metrics.convergence``'s, with the run's patience. Raises InputError for a history that cannot be used.
    """
    ensemble = params.ensembles.get(model)
    named = ensemble.members if ensemble else (model,)
    for run in (one for name in named for one in params.models(name)):
        if run in params.runs and params.runs[run].scheme.name in _SOLVED:
            continue
        folder = paths.trained(run)
        if not (folder / history.NAME).is_file():
            return f"{run}: no {folder / history.NAME}, so that nobody knows whether it has converged"
        patience = params.runs[run].train.patience if run in params.runs else None
        if not converged(history.read(folder)["val_rsum"].tolist(), patience):
            return f"{run} has not converged: rsum on val was still rising in its last epochs"
    return None


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
