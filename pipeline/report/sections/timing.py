"""Seconds per stage, as each stage leaves them beside its output."""

from collections.abc import Iterator
from pathlib import Path

from pipeline import paths
from pipeline.report.collector import Collector
from pipeline.report.reading import seconds
from pipeline.report.results import Results

TITLE = "Time"


def context(results: Results, collector: Collector) -> dict | None:
    """A stage that left no time is left out; without any, so is the section."""
    rows: dict[tuple[str, str], list[float]] = {}
    for stage, name, folder in _folders(results):
        taken = seconds(folder)
        if taken is not None:
            rows.setdefault((stage, name), []).append(taken)
    if not rows:
        return None
    longest = max(sum(taken) for taken in rows.values()) or 1.0
    return {
        "rows": [
            {
                "stage": stage,
                "name": name,
                "parts": len(taken),
                "seconds": sum(taken),
                "share": sum(taken) / longest,
            }
            for (stage, name), taken in rows.items()
        ],
        "total": sum(sum(taken) for taken in rows.values()),
    }


def _folders(results: Results) -> Iterator[tuple[str, str, Path]]:
    """In the order of the pipeline; the criteria of one run are summed, so they share a name."""
    runs = {run.name: run.params for run in results.runs()}
    for dataset in dict.fromkeys(run.dataset for run in runs.values()):
        yield "prepare", dataset, paths.prepared(dataset)
    for dataset, features in dict.fromkeys((run.dataset, run.features) for run in runs.values()):
        yield "extract", features, paths.extracted(dataset, features)
    for dataset, noise in dict.fromkeys((run.dataset, run.noise) for run in runs.values()):
        yield "inject", noise, paths.injected(dataset, noise)
    for stage, folder in (("train", paths.trained), ("embed", paths.embedded)):
        for name in runs:
            yield stage, name, folder(name)
    for name in runs:
        for inference in results.params.grid.inferences:
            yield "evaluate", name, paths.evaluated(name, inference)
