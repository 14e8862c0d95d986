"""Sections of single queries: examples of retrievals, and the worst failures."""

from dataclasses import dataclass

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.seeds import generator
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import DatasetIndex, Evaluation, Group, Pick, Results, mix, worst

_RANKED, _SHOWN = 5, 5
_HEADINGS = {"image_to_text": "From a picture to captions", "text_to_image": "From a caption to pictures"}
_FAILURE_HEADINGS = {
    "image_to_text": "Pictures that do not find their captions",
    "text_to_image": "Captions that do not find their picture",
}


@dataclass(frozen=True)
class Previews:
    """The images and captions of a data set, as the templates show them."""

    catalogue: DatasetIndex
    collector: Collector

    def image(self, image_id: int) -> dict:
        return {"id": image_id, "picture": self.collector.picture(self.catalogue, image_id), "text": None}

    def caption(self, caption_id: int) -> dict:
        return {"id": caption_id, "picture": None, "text": self.catalogue.captions.at[caption_id, "text"]}

    def query(self, query_id: int, direction: str) -> dict:
        """A query. Raises InputError if the data set lacks it."""
        self.catalogue.require([query_id], direction, "queries")
        return self.image(query_id) if direction == "image_to_text" else self.caption(query_id)

    def item(self, item_id: int, direction: str) -> dict:
        """An item. Raises InputError if the data set lacks it."""
        self.catalogue.require([item_id], direction, "items")
        return self.caption(item_id) if direction == "image_to_text" else self.image(item_id)

    def correct(self, query_id: int, direction: str) -> list[int]:
        """ids of the correct items: the captions of an image, or the image of a caption."""
        if direction == "image_to_text":
            return self.catalogue.captions_of.get(query_id, [])
        return [int(self.catalogue.captions.at[query_id, "image_id"])]


def examples(results: Results, collector: Collector) -> dict | None:
    """Some queries with the items that the best run retrieves under two criteria; None without report.examples."""
    if not results.params.report.examples:
        return None
    return {"groups": [_examples_group(group, results, collector) for group in results.groups]}


def _examples_group(group: Group, results: Results, collector: Collector) -> dict:
    run, previews = group.best_run, Previews(group.catalogue, collector)
    criteria = [run.baseline] if run.contrast is run.baseline else [run.baseline, run.contrast]
    sides = []
    for direction in reversed(DIRECTIONS):
        tables = [criterion.queries(direction) for criterion in criteria]
        seed = generator(results.params.seed, "report", "examples", group.catalogue.name, direction)
        picks = mix(tables[0], tables[-1], results.params.report.examples, seed)
        group.catalogue.require([pick.query_id for pick in picks], direction, "queries")
        rankings = list(zip(criteria, tables, strict=True))
        cards = [_card(pick, direction, rankings, previews) for pick in picks]
        sides.append({"direction": direction, "heading": _HEADINGS[direction], "cards": cards})
    return {"dataset": group.catalogue.name, "run": run.name, "kind": run.kind, "criteria": criteria, "sides": sides}


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


def failures(results: Results, collector: Collector) -> dict | None:
    """The queries with the lowest ranks of their correct items; None without a ranking or without failures."""
    groups = [_failure_group(group, result, collector) for group in results.groups if (result := _ranking(group))]
    return {"groups": groups} if any(side["rows"] for group in groups for side in group["sides"]) else None


def _ranking(group: Group) -> Evaluation | None:
    """The best criterion of the best run that gives every query a rank."""
    ranking = [result for result in group.best_run.evaluations.values() if not result.matching]
    return max(ranking, key=lambda result: result.rsum, default=None)


def _failure_group(group: Group, result: Evaluation, collector: Collector) -> dict:
    previews = Previews(group.catalogue, collector)
    return {
        "dataset": group.catalogue.name,
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
        for number in previews.catalogue.require(worst(table, _SHOWN), direction, "queries")
    ]
    return {"direction": direction, "heading": _FAILURE_HEADINGS[direction], "rows": rows, "items": items}
