"""The training pairs of the audited runs: matched, mismatched, and better partners."""

from typing import Any

from vse_pipe.core.errors import InputError
from vse_pipe.report import charts as report_charts
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Audit, DatasetIndex, Results
from vse_pipe.report.sections.examples import preview

_MEASURES = ("auc", "average_precision", "precision", "recall")


def context(results: Results, collector: Collector) -> dict | None:
    """None when params names no audit."""
    groups = []
    for group in results.groups:
        audits = [results.audits[run.name] for run in group.runs if run.name in results.audits]
        cards = [_audit(audit, group.catalogue, collector) for audit in audits]
        groups += [{"dataset": group.catalogue.name, "audits": cards}] if cards else []
    return {"groups": groups} if groups else None


def _audit(audit: Audit, catalogue: DatasetIndex, collector: Collector) -> dict:
    metrics = audit.metrics
    is_known = metrics["truth"] == "known"
    label = (
        f"Losses of {metrics['pairs']} training pairs of {audit.run}; {metrics['flagged']} are taken for mismatched."
    )
    return {
        "run": audit.run,
        "known": is_known,
        "metrics": metrics,
        "doubts": metrics["mixture"]["doubts"],
        "ranked": metrics.get("ranked", []),  # absent in audits of earlier versions
        "partners_from": metrics["partners_from"],
        "measures": [metrics.get(name) for name in _MEASURES],
        "losses": collector.chart(report_charts.losses(audit.histogram), label),
        "costs": _costs(audit, collector),
        "cards": [_card(audit, number, catalogue, collector) for number in metrics["gallery"]],
        "refined": _refined(audit, catalogue, collector),
    }


def _costs(audit: Audit, collector: Collector):
    if audit.costs is None:
        return None
    table = report_charts.quartiles(audit.costs)
    if table.empty:
        return None
    label = f"Transport cost of the pairs of {audit.run} over {table['epoch'].nunique()} epochs."
    return collector.chart(report_charts.costs(table), label)


def _refined(audit: Audit, catalogue: DatasetIndex, collector: Collector) -> dict | None:
    """The alignment of the transport plans of the last epoch; None without plans or without rematched pairs."""
    refined = audit.metrics.get("refined")
    if not refined or not refined["alignment"]:
        return None
    charts = []
    for kind in ("transported", "untransported"):
        part = refined["alignment"][kind]
        top = part["mean"][0]
        label = f"Mean refined alignment of {part['rows']} {kind} images of {audit.run}: {top:.3f} for the first caption of {len(part['mean'])}."
        charts.append((kind, part["rows"], collector.chart(report_charts.alignment(part["mean"]), label)))
    cards = []
    for row in refined["rematched"]:
        catalogue.require([row["image_id"]], "image_to_text", "queries")
        catalogue.require([row["caption_id"], row["rematch_caption_id"]], "text_to_image", "queries")
        shows = {
            name: _preview(row[f"{name}_id"], False, catalogue, collector) for name in ("caption", "rematch_caption")
        }
        cards.append({**shows, "image": _preview(row["image_id"], True, catalogue, collector), "weight": row["weight"]})
    return {"epoch": refined["epoch"], "charts": charts, "cards": cards}


def _card(audit: Audit, number: int, catalogue: DatasetIndex, collector: Collector) -> dict:
    if number not in audit.pairs.index:
        raise InputError(
            f"audit of {audit.run}: caption_id {number} of the gallery is no row of pairs.parquet; "
            f"run `vse-pipe audit --run {audit.run}` again"
        )
    row = audit.pairs.loc[number]
    texts = {"caption": number, "rematch_caption": row["rematch_caption_id"]}
    pictures = {"image": row["image_id"], "rematch_image": row["rematch_image_id"]}
    for direction, ids in (("text_to_image", texts), ("image_to_text", pictures)):
        present = [int(value) for value in ids.values() if not _absent(value)]
        catalogue.require(present, direction, "queries")
    cells = {name: _preview(value, False, catalogue, collector) for name, value in texts.items()}
    cells |= {name: _preview(value, True, catalogue, collector) for name, value in pictures.items()}
    return {
        **cells,
        "probability": float(row["probability"]),
        "score": float(row["score"]),
        "caption_score": None if _absent(row["rematch_caption_id"]) else float(row["rematch_caption_score"]),
        "image_score": None if _absent(row["rematch_image_id"]) else float(row["rematch_image_score"]),
        "mismatched": None if _absent(row["mismatched"]) else bool(row["mismatched"]),
    }


def _absent(value: object) -> bool:
    """Is the value null? pandas has None, NaN and NA for it."""
    return value is None or value != value


def _preview(value: Any, is_picture: bool, catalogue: DatasetIndex, collector: Collector) -> dict | None:
    return None if _absent(value) else preview(int(value), is_picture, catalogue, collector)
