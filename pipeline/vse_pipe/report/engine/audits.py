"""The audits that params names under report.audits, read and checked; never what happens to lie on disk."""

from dataclasses import dataclass

import pandas as pd

from vse_pipe.artifacts import audit, joins
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

_NEEDED = ("pairs", "flagged", "threshold", "gallery", "partners_from", "mixture", "truth", "model_sha256")


@dataclass(frozen=True)
class Audit:
    """metrics: as audit wrote it; pairs: indexed by caption_id; histogram: of the losses; costs: by epoch, or None."""

    run: str
    metrics: dict
    pairs: pd.DataFrame
    histogram: pd.DataFrame
    costs: pd.DataFrame | None


def read(params: Params) -> dict[str, Audit]:
    """By run, in the order of report.audits. Raises InputError for what is missing, IntegrityError for what was made with another
    model, or of other images or captions, than there are now."""
    return {run: _audit(params, run) for run in params.report.audits}


def _audit(params: Params, run: str) -> Audit:
    folder = paths.audited(run)
    metrics = audit.read_metrics(folder)
    absent = [name for name in _NEEDED if name not in metrics]
    problem = f"{absent[0]} is missing" if absent else ""
    where, mend = folder / audit.METRICS, joins.repair_advice(f"audit@{run}", f"vse-pipe audit --run {run}")
    if problem:
        raise InputError(f"{where}: {problem}; {mend}")
    joins.require_model(where, metrics["model_sha256"], paths.trained(run), run, mend)
    joins.require(paths.prepared(params.dataset(run)), audit.origin(where, metrics, mend))
    # Ids stay whole numbers beside nulls.
    pairs = audit.read_pairs(folder).to_pandas(integer_object_nulls=True).set_index("caption_id")
    return Audit(run, metrics, pairs, audit.read_histogram(folder), audit.read_costs(folder))
