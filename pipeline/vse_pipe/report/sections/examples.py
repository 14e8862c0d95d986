"""Sections of single queries: examples of retrievals, and the worst failures."""

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.devices import generator
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import DatasetIndex, Evaluation, Group, Pick, Results, mix, worst

_RANKED = 5
_HEADINGS = {"image_to_text": "From a picture to captions", "text_to_image": "From a caption to pictures"}


def examples(results: Results, collector: Collector) -> dict | None:
    if not results.params.report.examples:
        return None
    return {"groups": [_examples_group(group, results, collector) for group in results.groups]}


def _examples_group(group: Group, results: Results, collector: Collector) -> dict:
    run = group.best_run
    criteria = [run.baseline] if run.contrast is run.baseline else [run.baseline, run.contrast]
    sides = []
    for direction in reversed(DIRECTIONS):
        tables = [criterion.queries(direction) for criterion in criteria]
        seed = generator(results.params.seed, "report", "examples", group.catalogue.name, direction)
        picks = mix(tables[0], tables[-1], results.params.report.examples, seed)
        group.catalogue.require([pick.query_id for pick in picks], direction, "queries")
        cards = [
            _card(pick, direction, list(zip(criteria, tables, strict=True)), group.catalogue, collector)
            for pick in picks
        ]
        sides.append({"direction": direction, "heading": _HEADINGS[direction], "cards": cards})
    return {"dataset": group.catalogue.name, "run": run.name, "kind": run.kind, "criteria": criteria, "sides": sides}


def _card(
    pick: Pick,
    direction: str,
    rankings: list[tuple[Evaluation, pd.DataFrame]],
    catalogue: DatasetIndex,
    collector: Collector,
) -> dict:
    right = correct(pick.query_id, direction, catalogue)
    return {
        "kind": pick.kind,
        "query": preview(pick.query_id, direction == "image_to_text", catalogue, collector),
        "lists": [
            _list(result, table.loc[pick.query_id], right, direction, catalogue, collector)
            for result, table in rankings
        ],
        "right": [preview(item, direction == "text_to_image", catalogue, collector) for item in right],
    }


def _list(
    result: Evaluation,
    row: pd.Series,
    right: list[int],
    direction: str,
    catalogue: DatasetIndex,
    collector: Collector,
) -> dict:
    """The first items of a ranking, or the whole set of a matching, which has no order."""
    top = [int(item) for item in row["top"]]
    items = catalogue.require(top if result.matching else top[:_RANKED], direction, "items")
    return {
        "inference": result.inference,
        "matching": result.matching,
        "rank": None if result.matching else float(row["rank"]),
        "items": [
            {**preview(item, direction == "text_to_image", catalogue, collector), "right": item in right}
            for item in items
        ],
    }


def correct(query_id: int, direction: str, catalogue: DatasetIndex) -> list[int]:
    """ids of the correct items: the captions of an image, or the image of a caption."""
    if direction == "image_to_text":
        return catalogue.captions_of.get(query_id, [])
    return [int(catalogue.captions.at[query_id, "image_id"])]


def preview(number: int, is_picture: bool, catalogue: DatasetIndex, collector: Collector) -> dict:
    """The content of an image or a caption for the templates."""
    if is_picture:
        return {"id": number, "picture": collector.picture(catalogue, number), "text": None}
    return {"id": number, "picture": None, "text": catalogue.captions.at[number, "text"]}


_SHOWN = 5
_FAILURE_HEADINGS = {
    "image_to_text": "Pictures that do not find their captions",
    "text_to_image": "Captions that do not find their picture",
}


def failures(results: Results, collector: Collector) -> dict | None:
    """None when no criterion ranks, or when no query fails."""
    groups = [_failure_group(group, result, collector) for group in results.groups if (result := _ranking(group))]
    return {"groups": groups} if any(side["rows"] for group in groups for side in group["sides"]) else None


def _ranking(group: Group) -> Evaluation | None:
    """The best criterion of the best run that gives every query a rank."""
    ranking = [result for result in group.best_run.evaluations.values() if not result.matching]
    return max(ranking, key=lambda result: result.rsum, default=None)


def _failure_group(group: Group, result: Evaluation, collector: Collector) -> dict:
    sides = [_failure_side(group, result, direction, collector) for direction in reversed(DIRECTIONS)]
    return {
        "dataset": group.catalogue.name,
        "run": result.run,
        "kind": group.best_run.kind,
        "inference": result.inference,
        "sides": sides,
    }


def _failure_side(group: Group, result: Evaluation, direction: str, collector: Collector) -> dict:
    catalogue, table = group.catalogue, result.queries(direction)
    of_texts = direction == "text_to_image"
    items = len(result.items(direction)) // result.items(direction)["fold"].nunique()
    rows = []
    for number in catalogue.require(worst(table, _SHOWN), direction, "queries"):
        first = catalogue.require([int(table.at[number, "top"][0])], direction, "items")[0]
        rows.append(
            {
                "query": preview(number, not of_texts, catalogue, collector),
                "rank": float(table.at[number, "rank"]),
                "first": preview(first, of_texts, catalogue, collector),
                "right": preview(correct(number, direction, catalogue)[0], of_texts, catalogue, collector),
            }
        )
    return {"direction": direction, "heading": _FAILURE_HEADINGS[direction], "rows": rows, "items": items}
