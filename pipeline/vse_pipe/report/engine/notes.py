"""What a reader must know before the figures: it stands at the top of the page, a sentence each."""

from collections.abc import Iterator

import numpy as np

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.report.engine import formatting, settings
from vse_pipe.report.engine.collector import Collector
from vse_pipe.report.engine.results import Group, Results, RunResult, TrainedRun


def notes(results: Results, collector: Collector) -> list[str]:
    """Trainings that gave nothing, settings that are no longer those of params.yaml, and what the figures leave out."""
    sentences: dict[str, list[str]] = {}
    for group in results.groups:
        for run in group.runs:
            for sentence in (*_training(run), *_chance(run, group), *_changed(run, results), *_left_out(run)):
                sentences.setdefault(sentence, []).append(f"{run.kind} {run.name}")
    lines = [f"{', '.join(names)}: {sentence}" for sentence, names in sentences.items()]
    lines += list(_criteria(results))
    if collector.unreadable:
        pictures = formatting.plural(len(collector.unreadable), "picture")
        lines.append(f"{pictures} could not be read where this page was written; the caption stands in for each.")
    return [line[0].upper() + line[1:] for line in lines]


def _training(run: RunResult) -> Iterator[str]:
    if stuck := run.config.get("ended", {}).get("stuck"):
        yield f"{stuck}."


def _chance(run: RunResult, group: Group) -> Iterator[str]:
    one, chance = run.baseline, chance_rsum(run, group)
    low = one.interval[0] if one.interval else one.rsum
    if low <= chance:
        ends = f", 95% interval {formatting.interval(one.interval)}," if one.interval else ""
        figure = f"rsum {formatting.fixed(one.rsum)} under {one.inference}{ends}"
        yield f"{figure} cannot be told from chance, which gives {formatting.fixed(chance)}."


def chance_rsum(run: RunResult, group: Group) -> float:
    """rsum that a random order of the items would give on average: the sum over directions and K of
    ``1 - C(n - r, K) / C(n, K)``, r of n items correct."""
    total = 0.0
    counts = group.catalogue.captions.groupby("image_id").size()
    for direction in ("image_to_text", "text_to_image"):
        ids, _ = run.baseline.lists(direction)
        correct = counts.reindex(ids, fill_value=1).to_numpy() if direction == "image_to_text" else np.ones(len(ids))
        items = run.baseline.items(direction)
        n = len(items) // items["fold"].nunique()
        for k in KS:
            drawn = np.arange(min(k, n))[:, None]
            missed = np.clip((n - correct - drawn) / (n - drawn), 0.0, 1.0).prod(axis=0)
            total += 100.0 * float((1.0 - missed).mean())
    return total


def _changed(run: RunResult, results: Results) -> Iterator[str]:
    if not isinstance(run, TrainedRun):
        return
    pairs = [
        f"{row.kind} {setting.text} (params.yaml has {setting.now} now)"
        for row in settings.of_run(run, results.params)
        for setting in (row.member, *row.options)
        if setting.now is not None
    ]
    if pairs:
        yield f"trained with {', '.join(pairs)}; `vse-pipe train --run {run.name}` or `dvc repro` trains it anew."


def _left_out(run: RunResult) -> Iterator[str]:
    metrics = run.baseline.metrics
    if missing := metrics.get("left_out"):
        images, captions = (formatting.plural(missing[key], key[:-1]) for key in ("images", "captions"))
        split = metrics["split"]
        yield f"{images} of the {split} split could not be read; they are left out of the figures with {captions}."
    share = metrics.get("transfer", {}).get("unknown_words") if run.moved else None
    if share:
        yield f"{share:.1%} of the words of its captions are unknown to {metrics['transfer']['run']}."


def _criteria(results: Results) -> Iterator[str]:
    for name, variants in settings.of_criteria(results):
        changed = dict.fromkeys(
            f"{setting.text} (params.yaml has {setting.now} now)"
            for variant in variants
            for setting in variant.options
            if setting.now is not None
        )
        if changed:
            yield f"criterion {name}: ranked with {', '.join(changed)}; `vse-pipe evaluate` or `dvc repro` ranks anew."
