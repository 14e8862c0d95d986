"""Whether there is something to say of a training: it had converged when it ended, and reaches the floor."""

from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params


def problem(params: Params, model: str) -> str | None:
    """Why nothing should be said of a run, a repetition or an ensemble; None where it has converged.

    ``vse-pipe train`` has written it into config.json, by the rule of ``ranking.metrics.convergence``. Raises InputError and
    IntegrityError for a file that cannot be used.
    """
    ensemble = params.ensembles.get(model)
    named = ensemble.members if ensemble else (model,)
    for run in (one for name in named for one in params.models(name)):
        folder = paths.trained(params.trained(run))
        if not (folder / model_files.CONFIG).is_file():
            return f"{run}: no {folder / model_files.CONFIG}, so that nobody knows whether it has converged"
        ended = model_files.read_config(folder, run).get("ended")
        if ended is None:
            return f"{run}: trained before config.json told whether it has converged; train it again"
        if not ended["converged"]:
            single = ended.get("epoch") == 1
            why = "one epoch does not tell" if single else "rsum on val was still rising in its last epochs"
            return f"{run} has not converged: {why}"
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
