"""What there is to report of all that params.yaml names, and what is not there yet."""

from dataclasses import dataclass, replace

from vse_pipe.artifacts import audit, captions, evaluation, localisation, model_files
from vse_pipe.project import paths
from vse_pipe.project.params.checks import EPOCH, ranked_under
from vse_pipe.project.params.schema import SweepNode
from vse_pipe.project.params.typed import Params

CONFIG = "config.json"
# How the reason begins where no command would help.
UNCOMPUTED = "cannot be computed"
# What a run may have besides, and the command that makes it.
_BESIDE = (("audit", "audit"), ("localisation", "localize"))
_EVALUATED = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Present:
    """params: without the runs, ensembles, criteria, sweeps, audits and localisations that cannot be shown, and those of data sets without captions,
    which miss nothing; inferences: those of each run and ensemble, in the order of the grid; missing: ("run hal under gm, rgm", why and how to make it) of what was left out."""

    params: Params
    inferences: dict[str, list[str]]
    missing: list[tuple[str, str]]


def present(params: Params) -> Present:
    """By the files that lie there; whether they can be used is for their readers to say."""
    inferences: dict[str, list[str]] = {}
    missing = []
    for name in params.evaluated():
        if captions.absent(paths.prepared(params.dataset(name))):
            continue
        node, moved = params.ensembles.get(name), params.transfers.get(name)
        kind = "ensemble" if node else "transfer" if moved else "run"
        lacking = [run for run in node.members if run not in inferences] if node else []
        if moved and _untrained(moved.run):  # a trained one may be of pictures without captions, and measured here
            lacking = [moved.run]
        asked = ranked_under(params, name)
        found = [one for one in asked if _is_evaluated(name, one)]
        absent = [one for one in asked if one not in found]
        if kind == "run" and (untrained := _untrained(name)):
            missing.append((f"run {name}", f"{untrained} does not exist; {_made('train', name)}"))
        elif lacking:
            missing.append((f"{kind} {name}", f"run {lacking[0]} is not there"))
        elif not found:
            missing.append((f"{kind} {name}", f"not evaluated; {_made('evaluate', name)}"))
        else:
            inferences[name] = found
            why = evaluation.read_unmeasured(paths.evaluations(name))
            missing += [(f"{kind} {name} under {one}", f"{UNCOMPUTED}: {why[one]}") for one in absent if one in why]
            if absent := [one for one in absent if one not in why]:
                made = _made("evaluate", name, f" --inference {','.join(absent)}")
                missing.append((f"{kind} {name} under {', '.join(absent)}", f"not evaluated; {made}"))
    beside = {"audits": (paths.audited, audit.METRICS), "localized": (paths.localized, localisation.METRICS)}
    there: dict[str, list[str]] = {}
    for (key, (folder, file)), (what, command) in zip(beside.items(), _BESIDE, strict=True):
        named = getattr(params.report, key)
        there[key] = [run for run in named if (folder(run) / file).is_file()]
        missing += [(f"{what} of {run}", f"not made; {_made(command, run)}") for run in named if run not in there[key]]
    return Present(_reduced(params, inferences, there), inferences, missing)


def _made(command: str, run: str, more: str = "") -> str:
    return f"make it with `vse-pipe {command} --run {run}{more}` or `dvc repro`"


def _untrained(run: str) -> str:
    """The first file of a training that is not there."""
    files = [paths.trained(run) / name for name in (model_files.HISTORY, CONFIG)]
    return next((str(path) for path in files if not path.is_file()), "")


def _is_evaluated(name: str, inference: str) -> bool:
    return all((paths.evaluated(name, inference) / file).is_file() for file in _EVALUATED)


def _reduced(params: Params, inferences: dict[str, list[str]], made: dict[str, list[str]]) -> Params:
    used = {one for found in inferences.values() for one in found}
    sweeps = {name: _sweep(params, node, inferences) for name, node in params.report.sweeps.items()}
    report = {**made, "sweeps": {name: node for name, node in sweeps.items() if node.runs}}
    grid = {"inferences": [one for one in params.grid.inferences if one in used]}
    return replace(
        params,
        grid=params.grid.model_copy(update=grid),
        runs={name: run for name, run in params.runs.items() if name in inferences},
        groups={name: there for name, models in params.groups.items() if (there := _there(models, inferences))},
        ensembles={name: node for name, node in params.ensembles.items() if name in inferences},
        transfers={name: node for name, node in params.transfers.items() if name in inferences},
        report=params.report.model_copy(update=report),
    )


def _there(models: tuple[str, ...], inferences: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(one for one in models if one in inferences)


def _sweep(params: Params, node: SweepNode, inferences: dict[str, list[str]]) -> SweepNode:
    """Without the runs that lack its criterion."""

    def shown(run: str) -> bool:
        models = _there(params.models(run), inferences)
        return bool(models) and (node.x == EPOCH or all(node.inference in inferences[one] for one in models))

    named = {"runs": node.runs, "baselines": node.baselines}
    return node.model_copy(update={key: list(filter(shown, runs)) for key, runs in named.items()})
