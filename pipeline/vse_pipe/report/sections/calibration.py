"""The reliability diagram and the expected calibration error of each run and criterion."""

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report import charts
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Group, Results


def context(results: Results, collector: Collector) -> dict | None:
    """None when no evaluation was calibrated."""
    groups = [_group(group, collector) for group in results.groups]
    groups = [group for group in groups if group["runs"]]
    return {"groups": groups, "split": results.params.evaluate.split} if groups else None


def _group(group: Group, collector: Collector) -> dict:
    runs = []
    for run in group.first_models:
        documents = {name: result.metrics.get("calibration") for name, result in run.evaluations.items()}
        if measured := {name: document for name, document in documents.items() if document}:
            sides = [_side(measured, direction, collector) for direction in DIRECTIONS]
            head = {"run": run.name, "kind": run.kind, "open": run is group.best_run}
            runs.append({**head, "criteria": list(measured), "sides": sides})
    return {"dataset": group.catalogue.name, "runs": runs}


def _side(measured: dict[str, dict], direction: str, collector: Collector) -> dict:
    figures = {name: values[direction] for name, values in measured.items()}
    errors = "; ".join(f"{name} is off by {values['ece']:.3f} on average" for name, values in figures.items())
    label = f"Share of matches against the probability told, {direction.replace('_', ' ')}: {errors}."
    return {
        "heading": HEADINGS[direction],
        "chart": collector.chart(charts.reliability(figures), label),
        "rows": [{"inference": name, **values} for name, values in figures.items()],
        "candidates": next(iter(figures.values()))["candidates"],
    }
