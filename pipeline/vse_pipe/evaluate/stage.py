"""evaluate: rank every query of a split under each criterion, both ways."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from vse_pipe.artifacts import captions, digests, embeddings, evaluation, identity
from vse_pipe.artifacts.images import DESCRIBED
from vse_pipe.core import console, locks
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, PipelineError, UnknownMember, UsageError, command_of, unknown
from vse_pipe.core.files import sha256, whole_folder, write_json
from vse_pipe.evaluate.ensemble import load_embeddings
from vse_pipe.evaluate.measure import results
from vse_pipe.evaluate.task import Task, Untuned
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BM25
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import ends_in_matching
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.split import OWN

_SETTINGS = "settings"
_OTHER_SCALES = "the scores of this ensemble have another scale for each query"


def evaluate(params: Params, run: str, inferences: Sequence[str], device: str = "auto") -> dict[str, dict]:
    """Write data/evaluate/<run>/<inference>/ from data/embed/<run>/ for each criterion and return
    the metrics by name.

    run: a run, an ensemble or a transfer of params.yaml. device: auto, cpu, cuda or cuda:N. Open
    parameters are chosen on the validation split; a transfer without one takes that of the run's
    training data set. unmeasured.json names the criteria that lack validation data; a data set
    without captions has no metrics. Neither is an error, so `dvc repro` goes on. Raises UsageError
    for an unknown run, criterion or device, InputError for embeddings that cannot be ranked,
    LockedError when another process writes the same run."""
    started = time.monotonic()
    if run not in params.evaluated():
        raise UsageError(unknown("run", run, sorted(params.evaluated())))
    selected = [criteria.parse(name, params.inference) for name in inferences]
    resolved = resolve_device(device)
    _must_rank(params, run, inferences)
    dataset, out, metrics = params.dataset(run), paths.evaluations(run), {}
    prepared = paths.prepared(dataset)
    with locks.claim(out):
        if captions.absent(prepared):
            console.say(f"evaluate {run}: data set '{dataset}' has no captions, so there is nothing to measure")
            with whole_folder(out) as folder:
                write_json(folder / evaluation.UNMEASURED, {"run": run, "dataset": dataset, "why": "no captions"})
            return {}
        made_from = _identities(params, run)
        embedded = load_embeddings(params, run)
        task = Task.of_run(params, run, embedded, selected, resolved).judged(prepared)
        if not len(task.split.caption_ids):
            raise InputError(f"{embedded.folder}: holds no captions, so there is nothing to measure")
        with whole_folder(out) as folder:
            unmeasured: dict[str, PipelineError] = {}
            for name, result in results(task, selected):
                if isinstance(result, PipelineError):
                    unmeasured[name] = result
                    console.warn(f"evaluate {run}: {name} is left out: {result}")
                    continue
                metrics[name] = result.metrics
                warn_of_residuals(result.criterion, result.metrics["notes"])
                (folder / name).mkdir()
                evaluation.write(folder / name, result.metrics, result.tables, task.names)
            wrong = [reason for reason in unmeasured.values() if not isinstance(reason, Untuned)]
            if wrong and not metrics:
                raise wrong[0]
            reasons = {name: str(reason) for name, reason in unmeasured.items()}
            if reasons := _complete(params, run, folder, made_from, reasons):
                write_json(folder / evaluation.UNMEASURED, {"run": run, "dataset": dataset, "criteria": reasons})
    paths.record_seconds(out, time.monotonic() - started)
    return metrics


def require_measured(runs: Sequence[str], inferences: Sequence[str]) -> None:
    """Raises InputError for criteria of the call that the runs could not be measured under."""
    lines = [
        f"{run}: {name}: {reasons[name]}"
        for run, reasons in {run: evaluation.read_unmeasured(paths.evaluations(run)) for run in runs}.items()
        for name in inferences
        if name in reasons
    ]
    if lines:
        raise InputError(*lines)


def _identities(params: Params, run: str) -> identity.Inputs:
    """The ranked vectors and what they were made from, and those of a bank's folder."""
    node, settings, read = params.ensembles.get(run), params.evaluate, identity.Inputs()
    splits = {settings.split, "val", *({settings.bank} - {OWN})}  # val chooses parameters
    for member in (run,) if node is None else node.members:
        folder = paths.embedded(member)
        read |= identity.inputs_of(folder, splits) | identity.parts_of(folder)
    if run in params.transfers:  # its run may provide the bank and the validation data
        read |= identity.parts_of(paths.embedded(params.trained(run)))
    if settings.bank not in DESCRIBED:
        read[settings.bank] = {"vectors": embeddings.digest(Path(settings.bank))}
    # How rare a word is follows from the captions of all splits; judgements may name files.
    files = ["captions"] * (node is not None and BM25 in node.runs) + ["images"] * bool(_judgements(params, run))
    if files:
        prepared = paths.prepared(params.dataset(run))
        read[str(prepared)] = read.get(str(prepared), {}) | identity.parts_of(prepared, *files)[str(prepared)]
    return read


def _settings_digest(params: Params, run: str) -> str:
    """Settings of all criteria: the section evaluate and its files, the ensemble or transfer, and
    the seed."""
    ensemble, transfer, file = params.ensembles.get(run), params.transfers.get(run), _judgements(params, run)
    content = {
        "evaluate": params.evaluate.model_dump(mode="json", exclude={"memory"}),
        "judgements": sha256(file) if file is not None and file.is_file() else None,
        "ensemble": ensemble and ensemble.entry,
        "transfer": transfer and transfer.model_dump(mode="json"),
        "seed": params.seed,
    }
    return digests.of_values(content)


def _options_digest(params: Params, name: str) -> str:
    """The options of a criterion; empty for one whose member is gone."""
    try:
        criterion = criteria.parse(name, params.inference)
    except UnknownMember:
        return ""
    members = [criterion.rescoring, *([criterion.matching] if criterion.matching else [])]
    return digests.of_values([[member.name, member.params.model_dump(mode="json")] for member in members])


def _judgements(params: Params, run: str) -> Path | None:
    file = params.evaluate.for_dataset(params.dataset(run)).judgements
    return Path(file) if isinstance(file, str) else None


def _complete(
    params: Params, run: str, folder: Path, made_from: identity.Inputs, unmeasured: dict[str, str]
) -> dict[str, str]:
    """Copy the other criteria of before into ``folder`` if they were measured on the same vectors,
    data and bank with the same settings and options, warn of those that were not, and write the
    identity. Returns the reasons of criteria without figures."""
    out, settings = paths.evaluations(run), _settings_digest(params, run)
    parts, measured = identity.parts_of(out)[str(out)], {path.name for path in folder.iterdir()}
    fresh = measured | set(unmeasured)
    older = sorted({path.parent.name for path in out.glob(f"*/{evaluation.METRICS}")} - fresh)
    is_same = identity.inputs_of(out) == made_from and parts.get(_SETTINGS) == settings
    kept = [name for name in older if is_same and parts.get(name) == _options_digest(params, name)]
    for name in kept:
        shutil.copytree(out / name, folder / name)
    if removed := [name for name in older if name not in kept]:
        console.warn(
            f"{out}: removed {', '.join(removed)}, which were evaluated on other embeddings or settings; "
            f"`{command_of(out)}` makes all criteria of grid.inferences"
        )
    options = {name: _options_digest(params, name) for name in (*measured, *kept)}
    identity.write(folder, made_from, {_SETTINGS: settings, **options})
    reasons = evaluation.read_unmeasured(out) if is_same else {}
    return {name: reason for name, reason in reasons.items() if name not in fresh} | unmeasured


def _must_rank(params: Params, run: str, inferences: Sequence[str]) -> None:
    """Raises UsageError for a matching of scores that no scale compares, and warns where the grid
    has nothing else."""
    node = params.ensembles.get(run)
    if node is None or node.is_comparable:
        return
    if matchings := [name for name in inferences if ends_in_matching(name)]:
        raise UsageError(
            f"{matchings[0]} matches all queries at once, and {_OTHER_SCALES}; "
            f"rank it under {', '.join(params.ranked_under(run)) or 'nns'}"
        )
    if not inferences:
        console.warn(f"evaluate {run}: {_OTHER_SCALES}, and grid.inferences has nothing but matchings; add nns")


def warn_of_residuals(
    criterion: Criterion, notes: Mapping[str, Mapping[str, float]], warn: Callable[[str], None] | None = None
) -> None:
    """Warn of iterations that stopped before they reached their tolerance. notes: by direction."""
    tolerance = getattr(criterion.rescoring.params, "tolerance", np.inf)
    for direction, values in notes.items():
        if values.get("residual", 0.0) > tolerance:
            (warn or console.warn)(
                f"{criterion.name}, {direction}: stopped after {values['iterations']:.0f} iterations with a "
                f"residual of {values['residual']:.2g}, above {tolerance:g}; raise max_iterations or tau"
            )
