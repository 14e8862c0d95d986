"""The queries with the lowest ranks of their correct items: wrong labels or failures of the model."""

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results, worst
from vse_pipe.report.sections.examples import correct, preview

_SHOWN = 5
_HEADINGS = {
    "image_to_text": "Pictures that do not find their captions",
    "text_to_image": "Captions that do not find their picture",
}


def context(results: Results, collector: Collector) -> dict | None:
    """None when no criterion ranks, or when no query fails."""
    groups = [_group(group, result, collector) for group in results.groups if (result := _ranking(group))]
    return {"groups": groups} if any(side["rows"] for group in groups for side in group["sides"]) else None


def _ranking(group: Group) -> Evaluation | None:
    """The best criterion of the best run that gives every query a rank."""
    ranking = [result for result in group.best_run.evaluations.values() if not result.matching]
    return max(ranking, key=lambda result: result.rsum, default=None)


def _group(group: Group, result: Evaluation, collector: Collector) -> dict:
    sides = [_side(group, result, direction, collector) for direction in reversed(DIRECTIONS)]
    return {
        "dataset": group.catalogue.name,
        "run": result.run,
        "kind": group.best_run.kind,
        "inference": result.inference,
        "sides": sides,
    }


def _side(group: Group, result: Evaluation, direction: str, collector: Collector) -> dict:
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
    return {"direction": direction, "heading": _HEADINGS[direction], "rows": rows, "items": items}
