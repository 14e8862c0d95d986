"""Example queries with the items that the best run retrieves under two criteria."""

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.seeds import generator
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import DatasetIndex, Evaluation, Group, Pick, Results, mix

TITLE = "Example retrievals"
_RANKED = 5
_HEADINGS = {"image_to_text": "From a picture to captions", "text_to_image": "From a caption to pictures"}


def context(results: Results, collector: Collector) -> dict | None:
    if not results.params.report.examples:
        return None
    return {"groups": [_group(group, results, collector) for group in results.groups]}


def _group(group: Group, results: Results, collector: Collector) -> dict:
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
