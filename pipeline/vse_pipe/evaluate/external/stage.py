"""Evaluate files of vectors without a project: files in, metrics out."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.names import KEYS
from vse_pipe.core import locks
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate.external import inputs
from vse_pipe.evaluate.external.inputs import InputFiles
from vse_pipe.evaluate.external.readers import require_room
from vse_pipe.evaluate.measure import Inputs, is_calibrated, measure, open_parameters
from vse_pipe.evaluate.stage import warn_of_collapse, warn_of_residual, write
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import Criterion

DEFAULT = ("nns", "is", "csls")


def evaluate_files(
    files: InputFiles,
    inferences: Sequence[str],
    params: EvaluateParams,
    options: dict[str, Strict],
    device: str = "auto",
    out: Path | None = None,
    seed: int = 1,
) -> dict[str, dict]:
    """The metrics by criterion; ``out`` receives the folders <inference>/ that ``vse-pipe evaluate`` writes for a run.

    options: parameters of criteria by name, defaults for the rest. seed: for the bootstrap. Raises UsageError for
    unknown names and options that do not go together, InputError and IntegrityError for files that cannot be used."""
    chosen, target = [criteria.parse(name, options) for name in inferences], resolve_device(device)
    if (files.bank_images is None) != (files.bank_captions is None):
        raise UsageError(
            "--bank-images and --bank-captions go together: images correct the captions and captions the images"
        )
    out = out.resolve() if out else None
    if out:
        require_room(out)
    folders = {criterion.name: _free(out / criterion.name) for criterion in chosen} if out else {}
    loaded = replace(inputs.read(files, params, target), seed=seed)
    if params.judgements or params.labels:
        # pandas takes half a second to import.
        from vse_pipe.evaluate import judgements

        ids = dict(zip(KEYS, (loaded.ranked.image_ids, loaded.ranked.caption_ids), strict=True))
        sides = [judgements.Names.from_key(key, values, loaded.names) for key, values in ids.items()]
        loaded = replace(loaded, further=judgements.read_judgements(params, *sides))
    require_parameters(loaded, chosen, params)
    if loaded.tuning is None and any(is_calibrated(criterion, loaded.similarity, params) for criterion in chosen):
        raise UsageError(
            "evaluate.calibrate fits a probability on validation data and there is none; give --val-images and --val-captions, or "
            "-S evaluate.calibrate=none"
        )
    warn_of_collapse(loaded.ranked, f"{files.images}, {files.captions}")
    metrics: dict[str, dict] = {}
    with locks.claim(out) if out else nullcontext():
        for result in measure(loaded, chosen, params):
            name = result.criterion.name
            metrics[name] = {**result.metrics, "split": "files"}
            if folders:
                write(folders[name], replace(result, metrics=metrics[name]), loaded.names)
                continue
            for direction, notes in result.metrics["notes"].items():
                warn_of_residual(result.criterion, direction, notes)
    return metrics


def require_parameters(loaded: Inputs, chosen: Sequence[Criterion], params: EvaluateParams) -> None:
    """Raises UsageError when parameters of a criterion are open and there are no validation data."""
    names = [criterion.name for criterion in chosen if open_parameters(criterion, params)]
    if names and loaded.tuning is None:
        raise UsageError(
            f"{', '.join(names)}: parameters are to be chosen and there is nothing to choose them on; give --val-images "
            "and --val-captions, or the values, such as -S inference.rgm.lam=2"
        )


def _free(folder: Path) -> Path:
    """The folder. Raises UsageError if it has contents that are no evaluation."""
    if folder.exists() and not (
        folder.is_dir() and ((folder / evaluation.METRICS).is_file() or not any(folder.iterdir()))
    ):
        raise UsageError(f"--out: {folder} exists and is not an evaluation; choose another folder")
    return folder
