"""Sections about trainings: learning curves, sweeps, audits of runs and of pairs, and the setup."""

import platform
import statistics
from importlib.metadata import version
from typing import Any

import pandas as pd

from vse_pipe.artifacts import identity
from vse_pipe.artifacts.audit import is_told
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.artifacts.images import DESCRIBED, SPLITS
from vse_pipe.core.errors import InputError
from vse_pipe.report import charts as report_charts
from vse_pipe.report import settings
from vse_pipe.report.formatting import plural
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Audit, Group, PairAudit, Results, RunResult, TrainedRun, best_epoch
from vse_pipe.report.sections.examples import Previews
from vse_pipe.report.settings import Sweep


def curves(results: Results, collector: Collector) -> dict | None:
    groups = [_curves_group(group, collector) for group in results.groups if group.with_curves]
    return {"groups": groups} if groups else None


def _curves_group(group: Group, collector: Collector) -> dict:
    histories = {run.name: run.history for run in group.with_curves}
    rows = [_curve(run, collector) for run in group.with_curves]
    best = max(rows, key=lambda row: row["rsum"])
    label = f"Validation rsum per epoch of {len(rows)} runs; the best is {best['run']} with {best['rsum']:.1f} at epoch {best['epoch']}."
    columns = pd.DataFrame({name: table.set_index("epoch")["val_rsum"] for name, table in histories.items()})
    return {
        "dataset": group.catalogue.dataset,
        "rows": rows,
        "validation": collector.chart(report_charts.validation(histories), label),
        "epochs": columns.sort_index().astype(object).where(columns.notna(), None),
    }


def _curve(run: TrainedRun, collector: Collector) -> dict[str, Any]:
    table, best = run.history, best_epoch(run.history)
    first, last = table["loss"].iloc[[0, -1]].tolist()
    text = f"Training loss of {run.name}: {first:.4g} in the first epoch, {last:.4g} in the last of {len(table)}."
    loss, scheme = run.member("loss"), run.member("scheme")
    return {
        "run": run.name,
        "name": loss if scheme == "plain" else f"{loss}, {scheme}",
        "epochs": len(table),
        "epoch": int(best["epoch"]),
        "rsum": float(best["val_rsum"]),
        "first": first,
        "last": last,
        "chart": collector.chart(report_charts.training(table), text),
    }


def sweeps(results: Results, collector: Collector) -> dict | None:
    sweeps = settings.collect(results)
    if not sweeps:
        return None
    return {
        "sweeps": [(_swept_curves if sweep.curves else _swept_values)(sweep, collector) for sweep in sweeps],
        "split": results.params.evaluate.split,
    }


def _swept_values(sweep: Sweep, collector: Collector) -> dict:
    best = max(sweep.points, key=lambda point: point.rsum)
    label = f"rsum under {sweep.node.inference} of {plural(len(sweep.points), 'run')} against {sweep.title}; the best is {best.rsum:.1f} at {best.x:g}, run {best.run}."
    spec = report_charts.sweep(sweep.points, sweep.baselines, sweep.title, sweep.node.x)
    by_value: dict[float | None, list[float]] = {}
    for point in sweep.points:
        by_value.setdefault(point.x, []).append(point.rsum)
    points = [*sweep.points, *sweep.baselines]
    # The mean of the runs with one value stands in the first of their rows.
    means = {point.run: statistics.fmean(by_value.pop(point.x)) for point in sweep.points if point.x in by_value}
    return {
        "sweep": sweep,
        "chart": collector.chart(spec, label),
        "points": points,
        "best": best,
        "means": means if len(means) < len(sweep.points) else {},
        "intervals": any(point.interval for point in points),
    }


def _swept_curves(sweep: Sweep, collector: Collector) -> dict:
    rows = {run: best_epoch(history) for run, history in sweep.histories.items()}
    best = max(rows, key=lambda run: rows[run]["val_rsum"])
    label = (
        f"Validation rsum per epoch of {plural(len(rows), 'run')}; "
        f"the best is {best} with {rows[best]['val_rsum']:.1f} at epoch {int(rows[best]['epoch'])}."
    )
    chart = collector.chart(report_charts.validation(sweep.histories), label)
    return {"sweep": sweep, "chart": chart, "rows": rows, "best": best}


def audit(results: Results, collector: Collector) -> dict | None:
    """None when params names no audit."""
    groups = []
    for group in results.groups:
        audits = [results.audits[run.name] for run in group.runs if run.name in results.audits]
        cards = [_audit_of_run(audit, Previews(group.catalogue, collector)) for audit in audits]
        groups += [{"dataset": group.catalogue.dataset, "audits": cards}] if cards else []
    return {"groups": groups} if groups else None


def _audit_of_run(audit: Audit, previews: Previews) -> dict:
    metrics, collector = audit.metrics, previews.collector
    expected = f"about {metrics['expected']} are mismatched"
    label = f"Losses of {metrics['pairs']} training pairs of {audit.run}; {expected}."
    losses, costs = collector.chart(report_charts.losses(audit.histogram), label), None
    if audit.costs is not None and not (table := report_charts.quartiles(audit.costs)).empty:
        text = f"Transport cost of the pairs of {audit.run} over {table['epoch'].nunique()} epochs."
        costs = collector.chart(report_charts.costs(table), text)
    return {
        "run": audit.run,
        "known": metrics["truth"] == "known",
        "metrics": metrics,
        "losses": losses,
        "costs": costs,
        "cards": [_audit_card(audit, number, previews) for number in metrics["gallery"]],
        "refined": _refined(audit, previews),
    }


def _refined(audit: Audit, previews: Previews) -> dict | None:
    """The alignment of the transport plans of the last epoch; None without plans or without
    rematched pairs."""
    refined = audit.metrics.get("refined")
    if not refined or not refined["alignment"]:
        return None
    charts = []
    for kind in ("transported", "untransported"):
        part = refined["alignment"][kind]
        top = part["mean"][0]
        label = f"Mean refined alignment of {part['rows']} {kind} images of {audit.run}: {top:.3f} for the first caption of {len(part['mean'])}."
        charts.append((kind, part["rows"], previews.collector.chart(report_charts.alignment(part["mean"]), label)))
    cards = [{**previews.pair(row), "weight": row["weight"]} for row in refined["rematched"]]
    return {"epoch": refined["epoch"], "charts": charts, "cards": cards}


def _audit_card(audit: Audit, number: int, previews: Previews) -> dict:
    if number not in audit.pairs.index:
        raise InputError(
            f"audit of {audit.run}: caption_id {number} of the gallery is no row of pairs.parquet; run `vse-pipe audit --run {audit.run}` again"
        )
    row = {"caption_id": number, **audit.pairs.loc[number].to_dict()}
    return {**row, **previews.pair(row)}


_KINDS = {
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
    label = f"Reviewing all pairs of {audit.noise} is expected to find {metrics['expected']} mismatches."
    mismatches = collector.chart(report_charts.reviewed(metrics["ranked"]), label)
    return {
        "noise": audit.noise,
        "dataset": audit.catalogue.dataset,
        "metrics": metrics,
        "known": metrics["truth"] == "known",
        "told": is_told(metrics),
        "defects": [(text, metrics["findings"][kind]) for kind, text in _KINDS.items() if kind in metrics["findings"]],
        "found": mismatches,
        "cards": [_suspect(row, previews) for row in audit.suspects.to_dict("records")],
    }


def _suspect(row: dict[Any, Any], previews: Previews) -> dict:
    takes_other = not pd.isna(row["proposal"]) and row["proposal"] == "picture"
    other = previews.query(int(row["other"]), "image_to_text") if takes_other else None
    return {**row, **previews.pair(row), "other": other}


_RULES = {"mean": "the mean of the scores", "rrf": "the reciprocal rank fusion"}
_LIBRARIES = ("vse-pipe", "torch", "torchvision", "numpy", "pandas", "pyarrow", "dvc")


def setup(results: Results, collector: Collector) -> dict:
    params, groups = results.params, results.groups
    sizes = {group.catalogue.dataset: _sizes(group.catalogue) for group in groups}
    present = {split for images, _ in sizes.values() for split in images}
    splits = [split for split in SPLITS if split in (*DESCRIBED, *present)]
    trained = [run for group in groups for run in group.first_models if isinstance(run, TrainedRun)]
    members = {run.name: {kind: run.member(kind) for kind in settings.MEMBERS} for run in trained}
    # A data set, then its runs, whose digests are of training inputs and weights.
    digests = []
    for group in groups:
        parts = identity.parts_of(group.catalogue.folder)[str(group.catalogue.folder)]
        digests += [(group.catalogue.dataset, parts), *((run.name, run.digests) for run in group.trained)]
    return {
        "datasets": {
            name: [[counts.get(split, 0) for counts in tables] for split in splits] for name, tables in sizes.items()
        },
        "splits": splits,
        "runs": [(run.name, settings.of_run(run), members[run.name]) for run in trained],
        "sentences": [
            *(_ensemble(run) for run in results.runs() if run.parts),
            *(_transfer(run) for run in results.runs() if run.moved),
        ],
        "criteria": settings.of_criteria(results),
        "tuned": _tuned(results),
        "fingerprints": [
            (source, name, digest) for source, listed in digests for name, digest in listed.items() if digest
        ],
        "evaluate": {key: settings.value_text(value) for key, value in params.evaluate.model_dump().items()},
        "seed": params.seed,
        "versions": [("Python", platform.python_version()), *((name, version(name)) for name in _LIBRARIES)],
    }


def _sizes(catalogue: Catalogue) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers of images and of captions by split."""
    images, texts = (table["split"].to_pandas().value_counts() for table in (catalogue.images, catalogue.captions))
    return images.to_dict(), texts.to_dict()


def _ensemble(run: RunResult) -> str:
    node = run.best.metrics["ensemble"]
    joined = node["runs"][1:] if node["rescore"] else node["runs"]
    shares = ", ".join(f"{part} {weight:.3g}" for part, weight in zip(joined, node["weights"], strict=True))
    text = f"{_RULES[node['rule']]}, weighted: {shares}"
    if node["rescore"]:
        return (
            f"{run.name} takes the best {node['rescore']} of each query by {node['runs'][0]}, in the order of {text}."
        )
    return f"{run.name} is {text}."


def _transfer(run: RunResult) -> str:
    transfer = run.best.metrics["transfer"]
    share = transfer.get("unknown_words")
    words = f"; {share:.1%} of the words of its captions are unknown to it" if share is not None else ""
    return f"{run.name} is {transfer['run']}, trained on {transfer['trained_on']}, on {transfer['dataset']}{words}."


def _tuned(results: Results) -> list[dict]:
    return [
        {"run": result.run, "inference": result.inference, "values": chosen + suffix}
        for run in results.runs()
        for result in run.evaluations.values()
        if (chosen := settings.listed(result.metrics["tuned"]))
        for suffix in [f" (chosen on {result.metrics['tuned_on']})" if "tuned_on" in result.metrics else ""]
    ]
