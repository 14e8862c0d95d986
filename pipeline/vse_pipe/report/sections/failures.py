"""The queries whose correct item ranks lowest: often wrong labels, sometimes what the model never learnt."""

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results, worst
from vse_pipe.report.sections.examples import correct, shown

TITLE = "Worst failures"
_SHOWN = 5
_HEADINGS = {
    "image_to_text": "Pictures that do not find their captions",
    "text_to_image": "Captions that do not find their picture",
}


def context(results: Results, collector: Collector) -> dict | None:
    """Left out when no criterion ranks, or when nothing fails."""
    groups = [_group(group, one, collector) for group in results.groups if (one := _ranking(group))]
    return {"groups": groups} if any(side["rows"] for group in groups for side in group["sides"]) else None


def _ranking(group: Group) -> Evaluation | None:
    """The best criterion of the best run that gives every query a rank."""
    ranking = [one for one in group.best_run.evaluations.values() if not one.matching]
    return max(ranking, key=lambda one: one.rsum, default=None)


def _group(group: Group, one: Evaluation, collector: Collector) -> dict:
    sides = [_side(group, one, direction, collector) for direction in reversed(DIRECTIONS)]
    return {
        "dataset": group.catalogue.name,
        "run": one.run,
        "kind": group.best_run.kind,
        "inference": one.inference,
        "sides": sides,
    }


def _side(group: Group, one: Evaluation, direction: str, collector: Collector) -> dict:
    catalogue, table = group.catalogue, one.queries(direction)
    of_texts = direction == "text_to_image"
    items = len(one.items(direction)) // one.items(direction)["fold"].nunique()
    rows = []
    for number in catalogue.known(worst(table, _SHOWN), direction, "queries"):
        first = catalogue.known([int(table.at[number, "top"][0])], direction, "items")[0]
        rows.append(
            {
                "query": shown(number, not of_texts, catalogue, collector),
                "rank": float(table.at[number, "rank"]),
                "first": shown(first, of_texts, catalogue, collector),
                "right": shown(correct(number, direction, catalogue)[0], of_texts, catalogue, collector),
            }
        )
    return {"direction": direction, "heading": _HEADINGS[direction], "rows": rows, "items": items}
