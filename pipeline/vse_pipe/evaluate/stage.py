"""evaluate: rank every query of a split under each criterion, both ways, measure the result and print it."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import captions, evaluation
from vse_pipe.artifacts import names as named
from vse_pipe.core import console, locks, workers
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, PipelineError, UsageError, unknown
from vse_pipe.core.files import read_json, whole_folder, write_json
from vse_pipe.evaluate import ensemble
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.measure import Inputs, Result, open_parameters, results
from vse_pipe.project import paths
from vse_pipe.project.params import criteria as grammar
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.fragments import tables
from vse_pipe.ranking.rows import collapsed
from vse_pipe.ranking.split import OWN, BankSource, Split, disjoint
from vse_pipe.ranking.vectors import Vectors

FILES = (evaluation.UNMEASURED, *(f"*/{name}" for name in evaluation.FILES))


def evaluate(params: Params, run: str, inferences: Sequence[str], device: str = "auto") -> dict[str, dict]:
    """Write data/evaluate/<run>/<inference>/ from data/embed/<run>/ for each criterion and return the metrics by name.

    run: a run, an ensemble or a transfer of params.yaml. device: auto, cpu, cuda, cuda:N or mps. Open parameters are chosen
    on the validation split; a transfer without one takes that of the run's training data set. unmeasured.json names the
    criteria that lack validation data; a data set without captions has no metrics. Neither is an error, so `dvc repro`
    goes on. Raises UsageError for an unknown run, criterion or device, InputError for embeddings that cannot be ranked,
    LockedError when another process writes the same run."""
    started = time.monotonic()
    if run not in params.evaluated():
        raise UsageError(unknown("run", run, sorted(params.evaluated())))
    selected, target = (
        [criteria.parse(name, params.inference) for name in inferences],
        resolve_device(device, needs_float64=True),
    )
    _must_rank(params, run, inferences)
    dataset, out, metrics = params.dataset(run), paths.evaluations(run), {}
    matchings = [criterion.name for criterion in selected if criterion.matching]
    if matchings and workers.has_pool():
        console.say(f"evaluate {run}: {', '.join(matchings)}: the queries are matched in this process, by no worker")
    with locks.claim(out):
        if captions.absent(paths.prepared(dataset)):
            console.say(f"evaluate {run}: data set '{dataset}' has no captions, so there is nothing to measure")
            with whole_folder(out, paths.output_patterns(FILES)) as folder:
                write_json(folder / evaluation.UNMEASURED, {"run": run, "dataset": dataset, "why": "no captions"})
            return {}
        inputs, settings = run_inputs(params, run, selected, target)
        with whole_folder(out, paths.output_patterns(FILES)) as folder:
            unmeasured: dict[str, str] = {}
            for name, result in results(inputs, selected, settings):
                if isinstance(result, PipelineError):
                    unmeasured[name] = str(result)
                    continue
                metrics[name] = result.metrics
                write(folder / name, result, inputs.names)
            about = {"run": run, "dataset": dataset, evaluation.MADE_FROM: inputs.about[evaluation.MADE_FROM]}
            _complete(out, folder, inputs.bank.name, about, unmeasured)
    paths.record_seconds(out, time.monotonic() - started)
    return metrics


def run_inputs(params: Params, run: str, selected: Sequence[Criterion], device) -> tuple[Inputs, EvaluateParams]:
    """The inputs of ``measure``, and the options of the run's data set; without a curve where nothing can fit one."""
    dataset = params.dataset(run)
    settings = params.evaluate.for_dataset(dataset)
    embedded = ensemble.load_embeddings(params, run, device)
    bank_run = ensemble.bank_embeddings(params, run, embedded, settings.bank, device)
    to_choose = any(open_parameters(criterion, settings) for criterion in selected)
    is_tuned_elsewhere = to_choose and not _has_validation(embedded, settings)
    training_run = ensemble.training_embeddings(params, run, device) if is_tuned_elsewhere else None
    loaded = read_inputs(embedded, run, settings, device, bank_run, training_run)
    if not len(loaded.ranked.caption_ids):
        raise InputError(f"{embedded.folder}: holds no captions, so there is nothing to measure")
    bank = None if loaded.bank.folder in (None, embedded.folder) else loaded.bank.folder
    digest = embedded.origin(settings.split).splits[settings.split]
    made_from = {**evaluation.made_from(params, run, bank), **({} if digest is None else {"prepared": digest})}
    about = {**loaded.about, evaluation.MADE_FROM: made_from}
    further, query_groups = None, None
    if settings.judgements or settings.labels or settings.by or settings.groups:
        # pandas takes half a second to import.
        from vse_pipe.evaluate import groups, judgements

        compared = paths.prepared(dataset), embedded.origin(settings.split)
        names = judgements.dataset_names(*compared)
        further = judgements.read_judgements(settings, *names)
        query_groups = groups.read(
            settings, (loaded.ranked.caption_ids, loaded.ranked.caption_images), names[1], compared
        )
    warn_of_collapse(loaded.ranked, str(embedded.folder))
    if settings.calibrate != "none" and (loaded.tuning is None or loaded.tuned_on):
        console.warn(f"evaluate {run}: no probability is fitted: it needs the split val beside the one that is ranked")
        settings = settings.model_copy(update={"calibrate": "none"})
    return replace(loaded, seed=params.seed, further=further, groups=query_groups, about=about), settings


def require_measured(runs: Sequence[str], inferences: Sequence[str]) -> None:
    """Raises InputError when a criterion of the call was not measured; for those of params.yaml a warning suffices."""
    lines = [
        f"{run}: {name}: {reasons[name]}"
        for run, reasons in {run: evaluation.read_unmeasured(paths.evaluations(run)) for run in runs}.items()
        for name in inferences
        if name in reasons
    ]
    if lines:
        raise InputError(*lines)


def _complete(out: Path, folder: Path, bank: str, about: dict, unmeasured: dict[str, str]) -> None:
    """Copy the other criteria from ``out`` to ``folder`` if they were measured on the same data, and warn of those that
    were not. Write unmeasured.json if some criteria lack validation data. about: the run, its data set and digests."""
    measured = {"bank": bank, evaluation.MADE_FROM: about[evaluation.MADE_FROM]}
    now = {path.name for path in folder.iterdir()} | set(unmeasured)
    removed = []
    for path in sorted(out.glob(f"*/{evaluation.METRICS}")):
        if path.parent.name in now:
            continue
        if evaluation.same_inputs(measured, evaluation.read_metrics(path.parent)):
            shutil.copytree(path.parent, folder / path.parent.name)
        else:
            removed.append(path.parent.name)
    if removed:
        console.warn(
            f"evaluate {about['run']}: removed {', '.join(removed)}, which were evaluated on other embeddings; "
            f"`vse-pipe evaluate --run {about['run']}` makes all criteria of grid.inferences"
        )
    older = evaluation.read_unmeasured(out)
    if older and evaluation.same_inputs(measured, {**measured, **read_json(out / evaluation.UNMEASURED)}):
        older = {name: reason for name, reason in older.items() if name not in now}
    else:
        older = {}
    for name, reason in unmeasured.items():
        console.warn(f"evaluate {about['run']}: {name} is left out: {reason}")
    if unmeasured | older:
        write_json(folder / evaluation.UNMEASURED, {**about, "criteria": unmeasured | older})


def _must_rank(params: Params, run: str, inferences: Sequence[str]) -> None:
    node = params.ensembles.get(run)
    for name in inferences:
        if node is not None and node.rescore and grammar.matches(name):
            raise UsageError(
                f"{name} matches all queries at once and ensemble '{run}' rescores, with one scale for a query only; "
                f"rank it under {', '.join(params.ranked_under(run)) or 'nns'}"
            )


def require_free(out: Path, mark: str, kind: str) -> Path:
    """The resolved folder for ``--out``. Raises UsageError where a file lies in its place or in that of a parent, and for
    a folder with contents and without the file ``mark``. kind: what it may hold, such as ``an export``."""
    for path in (out, *out.absolute().parents):
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out: {path} is a file; choose a folder")
    if out.exists() and not (out / mark).is_file() and any(out.iterdir()):
        raise UsageError(f"--out: {out} exists and is not {kind}; choose another folder")
    return out.resolve()


def write(out: Path, result: Result, names: named.TextIds | None = None) -> None:
    """Write the files of one criterion; the folder appears whole or not at all. names: of ids that are text."""
    for direction, notes in result.metrics["notes"].items():
        warn_of_residual(result.criterion, direction, notes)
    with whole_folder(out, evaluation.FILES) as folder:
        evaluation.write(folder, result.metrics, result.ranks, result.occurrence, result.relaxation, names)
        evaluation.write_judged(folder, result.further, names)


def warn_of_residual(criterion: Criterion, direction: str, notes: Mapping[str, float]) -> None:
    """Warn of an iteration that stopped before it reached its tolerance."""
    if message := residual(criterion, direction, notes):
        console.warn(message)


def residual(criterion: Criterion, direction: str, notes: Mapping[str, float]) -> str | None:
    """A message about an iteration that stopped before it reached its tolerance; else None."""
    tolerance = getattr(criterion.rescoring.params, "tolerance", None)
    if tolerance is None or notes.get("residual", 0.0) <= tolerance:
        return None
    return (
        f"{criterion.name}, {direction}: stopped after {notes['iterations']:.0f} iterations with a "
        f"residual of {notes['residual']:.2g}, above {tolerance:g}; raise max_iterations or tau"
    )


def read_inputs(
    embedded: Vectors | Ensemble,
    run: str,
    params: EvaluateParams,
    device,
    bank_run: Vectors | Ensemble | None = None,
    training_run: Vectors | Ensemble | None = None,
) -> Inputs:
    """The split, the bank and the validation data that ``params`` names. bank_run: the run that provides the bank of a
    transfer, on its training data set. training_run: that run, to choose parameters if the ranked data set has no split val.

    Raises InputError when they do not fit."""
    ranked = embedded.split(params.split, device)
    tuning = embedded.split("val", device) if _has_validation(embedded, params) else None
    tuned_on, untuned = None, ""
    if tuning is None:
        tuning, untuned = _training_validation(embedded, params, training_run, ranked, device)
        tuned_on = f"val of {embedded.transfer(params.split)['trained_on']}" if tuning is not None else None
    bank, names = BankSource(params.split), named.read(embedded.folder)
    tuning_bank = bank
    if params.bank != OWN and (bank_run is not None or params.bank != params.split):
        bank = tuning_bank = _bank(embedded, params, device, bank_run, names)
        bank.checked_against(ranked, "evaluate.bank", names)
        if tuned_on and params.bank == "train" and training_run is not None and training_run.has("train"):
            tuning_bank = BankSource(tuned_on.replace("val", "train", 1), training_run.split("train", device))
        if params.bank == "val" and (bank_run is None or tuned_on):
            assert tuning is not None
            # Every second image to tune on, the rest as the bank.
            half, rest = (tuning.fold(slice(start, None, 2)) for start in (0, 1))
            tuning, tuning_bank = half, BankSource(bank.name, rest)
    about: dict[str, object] = {"run": run, "similarity": embedded.compared_by}
    if moved := embedded.transfer(params.split):
        about["transfer"] = moved
    if isinstance(embedded, Ensemble):
        about |= embedded.details
    if data := embedded.data(params.split):
        about["data"] = data
    if missing := embedded.left_out(params.split):
        about["left_out"] = missing
        console.warn(
            f"evaluate {run}: {missing['images']} images of split '{params.split}' that could not be read are left out, "
            f"with {missing['captions']} captions; figures are those of the others"
        )
    similarity = embedded.similarity(device)
    return Inputs(ranked, bank, tuning, tuning_bank, similarity, about, names=names, tuned_on=tuned_on, untuned=untuned)


def _has_validation(embedded: Vectors | Ensemble, params: EvaluateParams) -> bool:
    """Is there a split val, and another split is ranked?"""
    return params.split != "val" and embedded.has("val")


def _training_validation(
    embedded: Vectors | Ensemble,
    params: EvaluateParams,
    training_run: Vectors | Ensemble | None,
    ranked: Split,
    device,
) -> tuple[Split | None, str]:
    """The split val of the training data set of a transfer's run; or None and the reason."""
    reason = "evaluate.split ranks val itself" if params.split == "val" else f"{embedded.folder} holds no split val"
    if training_run is None:
        moved = embedded.transfer(params.split)
        return None, reason + (f", and run '{moved['run']}' is not embedded on its own data set" if moved else "")
    if not training_run.has("val"):
        return None, f"{reason}, nor does {training_run.folder}"
    val = training_run.split("val", device)
    try:
        disjoint(val, ranked, str(training_run.folder), "split val")
    except InputError as error:
        return None, f"{reason}, and {error}"
    return val, ""


def _bank(
    embedded: Vectors | Ensemble,
    params: EvaluateParams,
    device,
    bank_run: Vectors | Ensemble | None,
    names: named.TextIds | None,
) -> BankSource:
    """A split of the run, named with its data set for a transfer, or a folder of embeddings from the same model. names:
    of the ranked ids if these are text; a bank with text ids gets the same numbers."""
    if params.bank in ("train", "val"):
        moved = embedded.transfer(params.split)
        suffix = f" of {moved['dataset' if bank_run is None else 'trained_on']}" if moved else ""
        folder, name = (bank_run or embedded).folder, f"{params.bank}{suffix}"
        split = (bank_run or embedded).split(params.bank, device)
    else:
        external = Vectors.of_folder(Path(params.bank))
        embedded.must_match(external)
        folder, name, split = external.folder, params.bank, external.all_splits(device)
    bank_split = split if names is None or folder == embedded.folder else _as_ranked(split, names, folder)
    return BankSource(name, bank_split, folder)


def _as_ranked(split: Split, names: named.TextIds, folder: Path) -> Split:
    """The split with the numbers of its text ids in ``names``: the numbers of two data sets are unrelated."""
    texts = named.read(folder)
    images, captions, owners = (
        names.numbers(key, texts, ids)
        for key, ids in (
            ("image_id", split.image_ids),
            ("caption_id", split.caption_ids),
            ("image_id", split.caption_images),
        )
    )
    return replace(split, image_ids=images, caption_ids=captions, caption_images=owners)


def warn_of_collapse(split: Split, where: str) -> None:
    """Warn when all vectors of a side are almost equal."""
    for name, side in [("images", split.images), ("captions", split.captions)]:
        if len(side) > 1 and any(map(collapsed, tables(side))):
            console.warn(
                f"{where}: the embeddings of the {name} are all but the same vector; the model has collapsed and its ranks mean nothing"
            )
