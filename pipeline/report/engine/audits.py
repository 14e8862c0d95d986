"""The audits that params names under report.audits, read and checked; never what happens to lie on disk."""

from dataclasses import dataclass

import pandas as pd

from pipeline.artifacts import audit
from pipeline.core.errors import InputError
from pipeline.core.files import read_json
from pipeline.project import paths
from pipeline.project.params.typed import Params

_NEEDED = ("pairs", "flagged", "threshold", "gallery", "partners_from", "mixture", "truth", "model_sha256")
_MODEL, _CONFIG = "model.safetensors", "config.json"


@dataclass(frozen=True)
class Audit:
    """metrics: as audit wrote it; pairs: indexed by caption_id; histogram: of the losses; costs: by epoch, or None."""

    run: str
    metrics: dict
    pairs: pd.DataFrame
    histogram: pd.DataFrame
    costs: pd.DataFrame | None


def read(params: Params) -> dict[str, Audit]:
    """By run, in the order of report.audits. Raises InputError for what is missing, or made with another model."""
    return {run: _audit(run) for run in params.report.audits}


def _audit(run: str) -> Audit:
    folder = paths.audited(run)
    metrics = audit.read_metrics(folder)
    absent = [name for name in _NEEDED if name not in metrics]
    problem = f"{absent[0]} is missing" if absent else ""
    if not problem and metrics["model_sha256"] != model_of(run):
        problem = f"it is of another model than {paths.trained(run)} now holds"
    if problem:
        raise InputError(f"{folder / audit.METRICS}: {problem}; run `vse-pipe audit --run {run}` again")
    # Ids stay whole numbers beside nulls.
    pairs = audit.read_pairs(folder).to_pandas(integer_object_nulls=True).set_index("caption_id")
    return Audit(run, metrics, pairs, audit.read_histogram(folder), audit.read_costs(folder))


def model_of(run: str) -> str | None:
    """Digest of the model, as config.json beside it says: the weights need not be read for it."""
    digests = read_json(paths.trained(run) / _CONFIG).get("sha256")
    return digests.get(_MODEL) if isinstance(digests, dict) else None
