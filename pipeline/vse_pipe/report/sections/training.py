"""Sections about trainings: learning curves, sweeps, audits of runs and of pairs, and the setup."""

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts import identity
from vse_pipe.artifacts.audit import is_told
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.artifacts.images import DESCRIBED, SPLITS
from vse_pipe.report import settings
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Audit, Group, PairAudit, Results, TrainedRun, best_epoch
from vse_pipe.report.sections.examples import Previews
from vse_pipe.report.settings import Sweep

KINDS = ("matched", "mismatched")


def curves(results: Results, collector: Collector) -> dict | None:
    groups = [_curves_group(group) for group in results.groups if group.with_curves]
    return {"groups": groups} if groups else None


def _curves_group(group: Group) -> dict:
    table = _epochs({run.name: run.history for run in group.with_curves})
    return {
        "dataset": group.catalogue.dataset,
        "rows": [_curve(run) for run in group.with_curves],
        "table": table,
        "epochs": _with_none(table.pivot(index="epoch", columns="run", values="rsum")[table["run"].unique()]),
    }


def _epochs(histories: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """run, epoch, rsum of validation."""
    table = pd.concat(histories, names=["run"]).reset_index("run")
    return table[["run", "epoch", "val_rsum"]].rename(columns={"val_rsum": "rsum"})


def _with_none(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype(object).where(table.notna(), None)


def _curve(run: TrainedRun) -> dict[str, Any]:
    loss, scheme = run.member("loss"), run.member("scheme")
    best = best_epoch(run.history)
    return {
        "run": run.name,
        "name": loss if scheme == "plain" else f"{loss}, {scheme}",
        "epoch": int(best["epoch"]),
        "rsum": float(best["val_rsum"]),
        "losses": run.history["loss"].tolist(),
        "table": run.history[["epoch", "loss"]],
    }


def sweeps(results: Results, collector: Collector) -> dict | None:
    sweeps = settings.collect(results)
    if not sweeps:
        return None
    drawn = [_swept_curves(sweep) if sweep.curves else _swept_values(sweep) for sweep in sweeps]
    return {"sweeps": drawn, "split": results.params.evaluate.split}


def _swept_values(sweep: Sweep) -> dict:
    points = [*sweep.points, *sweep.baselines]
    rows = pd.DataFrame([{"x": point.x, "rsum": point.rsum, "run": point.run} for point in points])
    rows["low"], rows["high"] = zip(*(point.interval or (None, None) for point in points), strict=True)
    rows["series"] = rows["run"].where(rows["x"].isna(), sweep.node.x)
    # The mean of the runs with one value stands in the first of their rows.
    firsts = rows.dropna(subset="x").drop_duplicates("x").set_index("run")["x"]
    means = firsts.map(rows.groupby("x")["rsum"].mean())
    return {
        "sweep": sweep,
        "rows": rows[rows["x"].notna()],
        "levels": rows[rows["x"].isna()],
        "points": points,
        "best": max(sweep.points, key=lambda point: point.rsum),
        "means": means.to_dict() if len(means) < len(sweep.points) else {},
        "intervals": any(point.interval for point in points),
    }


def _swept_curves(sweep: Sweep) -> dict:
    rows = {run: best_epoch(history) for run, history in sweep.histories.items()}
    best = max(rows, key=lambda run: rows[run]["val_rsum"])
    return {"sweep": sweep, "table": _epochs(sweep.histories), "rows": rows, "best": best}


def audit(results: Results, collector: Collector) -> dict | None:
    """None when params names no audit."""
    groups = []
    for group in results.groups:
        audits = [results.audits[run.name] for run in group.runs if run.name in results.audits]
        cards = [_audit_of_run(audit, Previews(group.catalogue, collector)) for audit in audits]
        groups += [{"dataset": group.catalogue.dataset, "audits": cards}] if cards else []
    return {"groups": groups} if groups else None


def _audit_of_run(audit: Audit, previews: Previews) -> dict:
    metrics, histogram = audit.metrics, audit.histogram
    refined = metrics.get("refined")
    costs = None if audit.costs is None else quartiles(audit.costs)
    return {
        "run": audit.run,
        "known": metrics["truth"] == "known",
        "metrics": metrics,
        "kinds": list(KINDS) if histogram["matched"].notna().all() else ["pairs"],
        "histogram": histogram,
        "costs": costs if costs is not None and len(costs) else None,
        "cards": [_audit_card(audit, number, previews) for number in metrics["gallery"]],
        # Of the transport plans of the last epoch; none where it rematched no pair.
        "refined": refined if refined and refined["alignment"] else None,
    }


def quartiles(table: pd.DataFrame) -> pd.DataFrame:
    """epoch, kind, low, median, high from costs.csv, with values spread evenly within a bin; kinds
    without pairs are absent."""
    rows = []
    for epoch, bins in table.groupby("epoch"):
        edges = [bins["low"].iloc[0], *bins["high"]]
        for kind in KINDS:
            below = np.append(0, bins[kind].cumsum())
            if below[-1]:
                quantiles = np.interp(np.array([0.25, 0.5, 0.75]) * below[-1], below, edges)
                rows.append([epoch, kind, *quantiles])
    return pd.DataFrame(rows, columns=["epoch", "kind", "low", "median", "high"])


def _audit_card(audit: Audit, number: int, previews: Previews) -> dict:
    row = {"caption_id": number, **audit.pairs.loc[number].to_dict()}
    return {**row, **previews.pair(row)}


_DEFECTS = {
    "caption": "captions that say nothing, or nothing of one picture",
    "picture": "pictures that are damaged, blank, dark, blurred, tiny or of odd shape",
    "duplicate": "pictures that occur twice in a split",
    "duplicate_caption": "captions that occur twice",
    "leak": "pictures that stand in another split too",
}


def cleaning(results: Results, collector: Collector) -> dict | None:
    """None when params names no pairs that are audited without a run."""
    audits = [_pairs_of_noise(audit, collector) for audit in results.cleaning.values()]
    return {"audits": audits} if audits else None


def _pairs_of_noise(audit: PairAudit, collector: Collector) -> dict:
    metrics, previews = audit.metrics, Previews(audit.catalogue, collector)
    return {
        "noise": audit.noise,
        "dataset": audit.catalogue.dataset,
        "metrics": metrics,
        "known": metrics["truth"] == "known",
        "told": is_told(metrics),
        "defects": [
            (text, metrics["findings"][kind]) for kind, text in _DEFECTS.items() if kind in metrics["findings"]
        ],
        "ranked": [{key: row[key] for key in ("first", "estimated", "precision")} for row in metrics["ranked"]],
        "cards": [_suspect(row, previews) for row in audit.suspects.to_dict("records")],
    }


def _suspect(row: dict[Any, Any], previews: Previews) -> dict:
    takes_other = not pd.isna(row["proposal"]) and row["proposal"] == "picture"
    proposed = previews.query(int(row["other"]), "image_to_text") if takes_other else None
    return {**row, **previews.pair(row), "other": proposed}


_LIBRARIES = ("vse-pipe", "torch", "torchvision", "numpy", "pandas", "pyarrow", "dvc")


def setup(results: Results, collector: Collector) -> dict:
    params, groups = results.params, results.groups
    sizes = {group.catalogue.dataset: _sizes(group.catalogue) for group in groups}
    present = {split for table in sizes.values() for split in table.index}
    trained = [run for group in groups for run in group.first_models if isinstance(run, TrainedRun)]
    # A data set, then its runs, whose digests are of training inputs and weights.
    digests = []
    for group in groups:
        parts = identity.parts_of(group.catalogue.folder)[str(group.catalogue.folder)]
        digests += [(group.catalogue.dataset, parts), *((run.name, run.digests) for run in group.trained)]
    evaluations = [result for run in results.runs() for result in run.evaluations.values()]
    return {
        "sizes": sizes,
        "splits": [split for split in SPLITS if split in (*DESCRIBED, *present)],
        "runs": [(run, settings.of_run(run)) for run in trained],
        "models": results.runs(),
        "criteria": settings.of_criteria(results),
        "tuned": [(result, text) for result in evaluations if (text := settings.listed(result.metrics["tuned"]))],
        "fingerprints": [(name, *item) for name, parts in digests for item in parts.items() if item[1]],
        "evaluate": {key: settings.value_text(value) for key, value in params.evaluate.model_dump().items()},
        "seed": params.seed,
        "versions": [("Python", platform.python_version()), *((name, version(name)) for name in _LIBRARIES)],
    }


def _sizes(catalogue: Catalogue) -> pd.DataFrame:
    """Numbers of images and of captions by split."""
    tables = {"images": catalogue.images, "captions": catalogue.captions}
    counts = {name: table["split"].to_pandas().value_counts() for name, table in tables.items()}
    return pd.DataFrame(counts).fillna(0).astype(int)
