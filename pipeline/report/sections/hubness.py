"""How evenly items are retrieved under each criterion, and the worst hubs."""

from pipeline.artifacts.evaluation import DIRECTIONS, KS
from pipeline.report import charts
from pipeline.report.collector import Collector
from pipeline.report.hubness import measure
from pipeline.report.results import Catalogue, Evaluation, Group, Results, RunResult

TITLE = "Hubness"
_K = 10
_HUBS = 5
_WORDS = {
    "image_to_text": ("Image to text", "caption", "image"),
    "text_to_image": ("Text to image", "image", "caption"),
}


def context(results: Results, collector: Collector) -> dict:
    return {"groups": [_group(group, collector) for group in results.groups], "k": _K, "ks": KS}


def _group(group: Group, collector: Collector) -> dict:
    return {
        "dataset": group.catalogue.name,
        "runs": [_run(run, run is group.best_run, group.catalogue, collector) for run in group.runs],
    }


def _run(run: RunResult, is_open: bool, catalogue: Catalogue, collector: Collector) -> dict:
    sides = [_side(run, direction, collector) for direction in DIRECTIONS]
    if is_open:
        for side, direction in zip(sides, DIRECTIONS, strict=True):
            side["hubs"] = _hubs(run, direction, catalogue, collector)
    return {
        "run": run.name,
        "open": is_open,
        "baseline": run.baseline.inference,
        "contrast": run.contrast.inference,
        "sides": sides,
    }


def _side(run: RunResult, direction: str, collector: Collector) -> dict:
    title, item, query = _WORDS[direction]
    largest = max(int(one.items(direction)["n_10"].max()) for one in run.evaluations.values())
    tallest = max(charts.fullest(one.items(direction)["n_10"], largest) for one in run.evaluations.values())
    rows = [
        _row(one, run.baseline, direction, (largest, tallest), collector) for one in run.evaluations.values()
    ]
    return {"title": title, "item": item, "query": query, "direction": direction, "rows": rows, "hubs": []}


def _row(
    one: Evaluation, baseline: Evaluation, direction: str, extent: tuple[int, int], collector: Collector
) -> dict:
    items = one.items(direction)
    shares = measure(items, _K)
    _, item, query = _WORDS[direction]
    label = (
        f"{one.inference}, {direction.replace('_', ' ')}: of {len(items)} {item}s, {(items['n_10'] == 0).sum()} are among the "
        f"best 10 of no {query}; the most frequent is among the best 10 of {shares.largest}."
    )
    spec = charts.occurrence(items["n_10"], baseline.items(direction)["n_10"], *extent)
    return {
        "inference": one.inference,
        "skews": [one.metrics[direction][f"skew@{k}"] for k in KS],
        "shares": shares,
        "chart": collector.chart(spec, label),
        "is_baseline": one is baseline,
    }


def _hubs(run: RunResult, direction: str, catalogue: Catalogue, collector: Collector) -> list[dict]:
    """The items most often among the best 10 under the baseline, and what the contrast makes of them."""
    before = run.baseline.items(direction).sort_values(
        ["n_10", "item_id"], ascending=[False, True], kind="stable"
    )
    after = run.contrast.items(direction).groupby("item_id")["n_10"].sum()
    worst = before.head(_HUBS)
    catalogue.known(worst["item_id"].tolist(), direction, "items")
    return [
        {
            "id": int(item),
            "picture": collector.picture(catalogue, int(item)) if direction == "text_to_image" else None,
            "text": catalogue.captions.at[item, "text"] if direction == "image_to_text" else None,
            "before": int(n),
            "after": int(after[item]),
        }
        for item, n in zip(worst["item_id"], worst["n_10"], strict=True)
    ]
