"""Localised phrases: figures, and pictures with true and predicted boxes."""

from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.artifacts.images import DESCRIBED
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Localisation, Results

_TRUE, _FOUND = ("x1", "y1", "x2", "y2"), ("found_x1", "found_y1", "found_x2", "found_y2")
_FIGURES = (*(f"r@{k}" for k in KS), "map")
# Colours of the page; further phrases of a sentence repeat them.
_COLOURS = 6
# Side of a symbol, in its units.
_SIDE = 100.0


def localisation(results: Results, collector: Collector) -> dict | None:
    """None when params names no localisation."""
    localised = list(results.localised.values())
    if not localised:
        return None
    best = max(localised, key=lambda run: run.recall)
    comparable = [run for run in localised if run is not best and best.comparable(run)]
    drawn = [*comparable[:1], best]
    first = localised[0].metrics
    draw = generator(results.params.seed, "report", "localisation", best.run)
    ids = np.sort(best.mentions["image_id"].unique())
    examples = draw.permutation(ids)[: results.params.report.examples]
    return {
        "threshold": first["threshold"],
        "split": first["split"],
        "runs": [_row(run.run, run.metrics["all"]) for run in localised],
        "types": [
            (run.run, [_row(name, figures) for name, figures in run.metrics["types"].items()]) for run in localised
        ],
        "bounds": _bounds(localised, results),
        "drawn": [run.run for run in drawn],
        "pictures": [_picture(drawn, int(image), collector) for image in examples],
    }


def _row(name: str, figures: dict) -> dict:
    intervals = figures.get("intervals", {})
    cells = [(figures[key], intervals.get(key)) for key in _FIGURES]
    return {"name": name, "figures": cells, **{key: figures[key] for key in ("mentions", "bound", "random_r@1")}}


def _bounds(localised: list[Localisation], results: Results) -> list[tuple[str, list[dict]]]:
    """The bounds of each data set of regions by split; a data set made by hand may have none."""
    bounds = {}
    for run in localised:
        proposals = run.metrics["proposals"]
        splits = [split for split in DESCRIBED if split in proposals]
        bounds[results.params.runs[run.run].dataset] = [
            {**proposals[split], "split": split, "percent": 100 * proposals[split]["recall"]} for split in splits
        ]
    return [(name, rows) for name, rows in bounds.items() if rows]


def _picture(drawn: list[Localisation], image: int, collector: Collector) -> dict:
    """A picture with the sentence that has most phrases. drawn: runs with the same mentions."""
    best = drawn[-1]
    mentions = best.mentions[best.mentions["image_id"] == image]
    caption = int(mentions["caption_id"].value_counts(sort=True).index[0])
    named = mentions[mentions["caption_id"] == caption].sort_values("start")
    if image not in best.catalogue.images.index or caption not in best.catalogue.captions.index:
        raise InputError(
            f"localisation of {best.run}: image_id {image} or caption_id {caption} is not in data set "
            f"'{best.catalogue.name}'; run `vse-pipe localize --run {best.run}` again"
        )
    size = best.catalogue.images.loc[image, ["width", "height"]].to_numpy(dtype=float)
    phrases = [
        [
            _phrase(row, place % _COLOURS + 1, size, run.metrics["threshold"])
            for place, row in enumerate(run.mentions.loc[named.index].to_dict("records"))
        ]
        for run in drawn
    ]
    text = best.catalogue.captions.at[caption, "text"]
    return {
        "picture": collector.picture(best.catalogue, image),
        "runs": [{"run": run.run, "phrases": run_phrases} for run, run_phrases in zip(drawn, phrases, strict=True)],
        "sentence": _parts(text, named, phrases[0]),
    }


def _phrase(row: dict[str, Any], colour: int, size: np.ndarray, threshold: float) -> dict:
    box = None if pd.isna(row["region_id"]) else _placed([row[name] for name in _FOUND], size)
    return {
        "text": row["text"],
        "colour": colour,
        "true": _placed([row[name] for name in _TRUE], size),
        "found": box,
        "iou": None if box is None else row["iou"],
        "right": box is not None and row["iou"] >= threshold,
    }


def _placed(box: list[float], size: np.ndarray) -> dict[str, float]:
    """The rectangle of a box in pixels on a square symbol; the picture is centred and fills its longer side."""
    x1, y1, x2, y2 = box
    scale = _SIDE / size.max()
    left, top = (_SIDE - scale * size) / 2
    placed = {"x": left + scale * x1, "y": top + scale * y1, "width": scale * (x2 - x1 + 1), "height": scale * (y2 - y1 + 1)}  # fmt: skip
    return {name: round(float(value), 2) for name, value in placed.items()}


def _parts(text: str, named: pd.DataFrame, phrases: list[dict]) -> list[dict]:
    """The parts of the sentence: text, and the colour of phrases."""
    parts, at = [], 0
    for start, phrase in zip(named["start"].tolist(), phrases, strict=True):
        if start < at:
            continue  # inside the phrase before it
        end = start + len(phrase["text"])
        parts += [{"text": text[at:start], "colour": None}, {"text": text[start:end], "colour": phrase["colour"]}]
        at = end
    return [*parts, {"text": text[at:], "colour": None}]
