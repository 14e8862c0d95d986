"""Sections of single pictures: retrievals, the worst failures, phrases with their boxes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.artifacts.images import DESCRIBED
from vse_pipe.core.seeds import generator
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Localisation, Results

_RANKED, _SHOWN, _MATCHED = 5, 5, 4
# In this order they take turns, so that a short page shows both gains and losses of a criterion.
_KINDS = ("repaired", "right", "wrong", "broken")
_HEADINGS = {"image_to_text": "From a picture to captions", "text_to_image": "From a caption to pictures"}
_FAILURE_HEADINGS = {
    "image_to_text": "Pictures that do not find their captions",
    "text_to_image": "Captions that do not find their picture",
}


@dataclass(frozen=True)
class Previews:
    """The images and captions of a data set, as the templates show them."""

    catalogue: Catalogue
    collector: Collector

    def image(self, image_id: int) -> dict:
        return {"id": image_id, "picture": self.collector.picture(self.catalogue, image_id), "text": None}

    def caption(self, caption_id: int) -> dict:
        return {"id": caption_id, "picture": None, "text": self.catalogue.text(caption_id)}

    def query(self, query_id: int, direction: str) -> dict:
        return self.image(query_id) if direction == "image_to_text" else self.caption(query_id)

    def item(self, item_id: int, direction: str) -> dict:
        return self.caption(item_id) if direction == "image_to_text" else self.image(item_id)

    def pair(self, row: dict) -> dict:
        """Pictures and captions of a row of pairs, and their best partners; None for nulls."""
        sides = {"image": "image_to_text", "caption": "text_to_image"}
        sides |= {f"rematch_{name}": direction for name, direction in sides.items()}
        numbers = {name: row.get(f"{name}_id") for name in sides}
        return {
            name: None if number is None or pd.isna(number) else self.query(int(number), sides[name])
            for name, number in numbers.items()
        }

    def correct(self, query_id: int, direction: str) -> list[int]:
        """ids of the correct items: the captions of an image, or the image of a caption."""
        if direction == "image_to_text":
            return self.catalogue.captions_of(query_id)
        return [self.catalogue.image_of(query_id)]


def examples(results: Results, collector: Collector) -> dict | None:
    """Queries with what the best run retrieves by two criteria; None without report.examples."""
    if not results.params.report.examples:
        return None
    matched = [section for group in results.groups if (section := _matched(group, results, collector))]
    return {"groups": [_examples_group(group, results, collector) for group in results.groups], "matched": matched}


def _examples_group(group: Group, results: Results, collector: Collector) -> dict:
    run, previews = group.best_run, Previews(group.catalogue, collector)
    criteria = [run.baseline] if run.contrast is run.baseline else [run.baseline, run.contrast]
    sides = []
    for direction in reversed(DIRECTIONS):
        tables = [criterion.queries(direction) for criterion in criteria]
        seed = generator(results.params.seed, "report", "examples", group.catalogue.dataset, direction)
        picks = mix(tables[0], tables[-1], results.params.report.examples, seed)
        rankings = list(zip(criteria, tables, strict=True))
        cards = [_card(pick, direction, rankings, previews) for pick in picks]
        sides.append({"direction": direction, "heading": _HEADINGS[direction], "cards": cards})
    return {"dataset": group.catalogue.dataset, "run": run.name, "kind": run.kind, "criteria": criteria, "sides": sides}


@dataclass(frozen=True)
class Pick:
    """kind: repaired (wrong under the baseline, right under the contrast), broken, right, wrong."""

    query_id: int
    kind: str


def mix(baseline: pd.DataFrame, contrast: pd.DataFrame, count: int, rng: np.random.Generator) -> list[Pick]:
    """At most ``count`` queries, the kinds by turns; right means a hit at 1.

    baseline, contrast: ranks of the same queries, indexed by query_id in ascending order, so that
    only ``rng`` chooses."""
    before, after = baseline["hit_1"].to_numpy(), contrast["hit_1"].to_numpy()
    masks = {"repaired": ~before & after, "right": before & after, "wrong": ~before & ~after, "broken": before & ~after}
    ids = baseline.index.to_numpy()
    waiting = {kind: list(rng.permutation(ids[masks[kind]])) for kind in _KINDS}
    chosen: list[Pick] = []
    while len(chosen) < count and any(waiting.values()):
        for kind in _KINDS:
            if waiting[kind] and len(chosen) < count:
                chosen.append(Pick(int(waiting[kind].pop()), kind))
    return chosen


def _card(pick: Pick, direction: str, rankings: list[tuple[Evaluation, pd.DataFrame]], previews: Previews) -> dict:
    right = previews.correct(pick.query_id, direction)
    return {
        "kind": pick.kind,
        "query": previews.query(pick.query_id, direction),
        "lists": [_list(result, table.loc[pick.query_id], right, direction, previews) for result, table in rankings],
        "right": [previews.item(item, direction) for item in right],
    }


def _list(result: Evaluation, row: pd.Series, right: list[int], direction: str, previews: Previews) -> dict:
    """The first items of a ranking, or the whole set of a matching, which has no order."""
    items = [int(item) for item in row["top"]][: None if result.matching else _RANKED]
    return {
        "inference": result.inference,
        "matching": result.matching,
        "rank": None if result.matching else float(row["rank"]),
        "items": [{**previews.item(item, direction), "right": item in right} for item in items],
    }


def _matched(group: Group, results: Results, collector: Collector) -> dict | None:
    """Where the words of a few captions matched in the first picture that the best run on regions
    retrieves, or why nothing is drawn; None without such a run."""
    on_regions = [run for run in group.trained if SIMILARITIES.traits(run.params.similarity.name).fragments]
    if not on_regions:
        return None
    from vse_pipe.report.matches import WordRegions, drawing  # torch, which other reports do without

    run = max(on_regions, key=lambda run: run.baseline.rsum)
    section = {"dataset": group.catalogue.dataset, "run": run.name, "inference": run.baseline.inference}
    matches = WordRegions.open(results.params, run)
    if isinstance(matches, str):
        return section | {"reason": matches, "cards": []}
    table, previews = run.baseline.queries("text_to_image"), Previews(group.catalogue, collector)
    seed = generator(results.params.seed, "report", "matches", group.catalogue.dataset)
    table = table[table["top"].map(len) > 0]
    picks = mix(table, table, min(results.params.report.examples, _MATCHED), seed)
    queries = [pick.query_id for pick in picks]
    first = [int(table.at[query, "top"][0]) for query in queries]
    cards = []
    for query, image, words in zip(queries, first, matches.of_pairs(queries, first), strict=True):
        item = {**previews.item(image, "text_to_image"), "right": image in previews.correct(query, "text_to_image")}
        drawn = drawing(words, *group.catalogue.size(image))
        cards.append(
            {"query": previews.caption(query), "item": item, "drawing": drawn if item["picture"].symbol else None}
        )
    has_any = any(card["drawing"] for card in cards)
    reason = None if has_any else "there is no picture of them, or no box"
    return section | {"reason": reason, "cards": cards if has_any else []}


def failures(results: Results, collector: Collector) -> dict | None:
    """The queries with the lowest ranks of correct items; None without a ranking or failures."""
    groups = [_failure_group(group, result, collector) for group in results.groups if (result := _ranking(group))]
    return {"groups": groups} if any(side["rows"] for group in groups for side in group["sides"]) else None


def _ranking(group: Group) -> Evaluation | None:
    """The best criterion of the best run that gives every query a rank."""
    ranking = [result for result in group.best_run.evaluations.values() if not result.matching]
    return max(ranking, key=lambda result: result.rsum, default=None)


def _failure_group(group: Group, result: Evaluation, collector: Collector) -> dict:
    previews = Previews(group.catalogue, collector)
    return {
        "dataset": group.catalogue.dataset,
        "run": result.run,
        "kind": group.best_run.kind,
        "inference": result.inference,
        "sides": [_failure_side(result, direction, previews) for direction in reversed(DIRECTIONS)],
    }


def _failure_side(result: Evaluation, direction: str, previews: Previews) -> dict:
    table = result.queries(direction)
    items = len(result.items(direction)) // result.items(direction)["fold"].nunique()
    rows = [
        {
            "query": previews.query(number, direction),
            "rank": float(table.at[number, "rank"]),
            "first": previews.item(int(table.at[number, "top"][0]), direction),
            "right": previews.item(previews.correct(number, direction)[0], direction),
        }
        for number in worst(table, _SHOWN)
    ]
    return {"direction": direction, "heading": _FAILURE_HEADINGS[direction], "rows": rows, "items": items}


def worst(ranks: pd.DataFrame, count: int) -> list[int]:
    """query_ids with the lowest ranks of the best correct item, worst first, then by query_id."""
    missed = ranks[ranks["rank"] > 1]
    return [int(number) for number in missed.sort_values("rank", ascending=False, kind="stable").index[:count]]


_TRUE, _FOUND = ("x1", "y1", "x2", "y2"), ("found_x1", "found_y1", "found_x2", "found_y2")
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
    examples = draw.permutation(np.sort(best.mentions["image_id"].unique()))[: results.params.report.examples]
    return {
        "threshold": first["threshold"],
        "split": first["split"],
        "runs": localised,
        "bounds": {results.params.runs[run.run].dataset: run.metrics["proposals"] for run in localised},
        "splits": DESCRIBED,
        "drawn": [run.run for run in drawn],
        "pictures": [_picture(drawn, int(image), collector) for image in examples],
    }


def _picture(drawn: list[Localisation], image: int, collector: Collector) -> dict:
    """A picture with the sentence that has most phrases. drawn: runs with the same mentions."""
    best = drawn[-1]
    mentions = best.mentions[best.mentions["image_id"] == image]
    caption = int(mentions["caption_id"].value_counts(sort=True).index[0])
    named = mentions[mentions["caption_id"] == caption].sort_values("start")
    size = np.array(best.catalogue.size(image), dtype=float)
    phrases = [
        [
            _phrase(row, place % _COLOURS + 1, size, run.metrics["threshold"])
            for place, row in enumerate(run.mentions.loc[named.index].to_dict("records"))
        ]
        for run in drawn
    ]
    return {
        "picture": collector.picture(best.catalogue, image),
        "runs": [{"run": run.run, "phrases": run_phrases} for run, run_phrases in zip(drawn, phrases, strict=True)],
        "sentence": _parts(best.catalogue.text(caption), named, phrases[0]),
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
    """The rectangle of a box on a square symbol, whose middle the picture fills."""
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
