"""Sections of figures: summary, rankings, judgements, published figures, claims."""

from dataclasses import dataclass
from typing import Any

from vse_pipe.artifacts.evaluation import DIRECTIONS, few_items
from vse_pipe.papers import catalogue, overlay
from vse_pipe.report import claims as report_claims
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import BASELINE, Evaluation, Group, Results, RunResult


def summary(results: Results, collector: Collector) -> dict:
    evaluate = results.params.evaluate
    return {
        "groups": [_summary_group(group) for group in results.groups],
        "split": evaluate.split,
        "evaluate": evaluate,
    }


def _summary_group(group: Group) -> dict:
    head, method, evaluations = group.plain_method.baseline, group.best_method, group.evaluations()
    strict = [result for result in evaluations if not result.transductive]
    return {
        "dataset": group.catalogue.dataset,
        "head": head,
        "best": method.best,
        "gain": method.best.rsum - method.baseline.rsum,
        "baseline": method.baseline.inference,
        "count": len(evaluations),
        "tuned": any(method.best.metrics["tuned"].values()),
        "kinds": {run.name: run.kind for run in group.methods},
        "strict": max(strict, key=lambda result: result.rsum, default=None),
        "few": few_items(head.metrics),
        "mixed": len({result.metrics.get("data") for run in group.runs for result in run.evaluations.values()}) > 1,
        "repeated": {run.name: len(run.repetitions) for run in group.methods if run.repetitions},
        "sizes": {direction: (len(head.queries(direction)), len(head.items(direction))) for direction in DIRECTIONS},
        "matrix": _matrix(group, method.best),
        "transductive": {result.inference for result in evaluations if result.transductive},
    }


def _matrix(group: Group, best: Evaluation) -> dict:
    """rsum of each run under each criterion, with the gain over the baseline of the run. The longer
    list has the rows, so that the table stays narrow."""

    def cell(run: RunResult, result: Evaluation | None) -> dict | None:
        if result is None:
            return None
        gain = None if result is run.baseline else result.rsum - run.baseline.rsum
        return {"rsum": result.rsum, "gain": gain, "best": result is best}

    runs = [run.name for run in group.methods]
    criteria = list(dict.fromkeys(name for run in group.methods for name in run.evaluations))
    cells = [[cell(run, run.evaluations.get(name)) for name in criteria] for run in group.methods]
    if len(criteria) > len(runs):
        columns = zip(*cells, strict=True)
        return {"corner": "Criterion", "heads": runs, "rows": list(zip(criteria, columns, strict=True))}
    return {"corner": "Run", "heads": criteria, "rows": list(zip(runs, cells, strict=True))}


_ORDERS = {"most": lambda value: -value, "least": lambda value: value, "zero": abs}


@dataclass(frozen=True)
class Column:
    """path: keys into metrics.json of evaluate. goal: most, least, or zero for the value nearest to
    0. Negative skewness is no merit: a matching has it if all items except one have the same N_k.
    """

    label: str
    path: tuple[str, ...]
    digits: int
    goal: str

    def cells(self, evaluations: list[Evaluation]) -> list[dict]:
        """The figure of each; None if its criterion does not define it. The best as printed is
        marked, unless all print the same value."""
        values = [self._value(result.metrics) for result in evaluations]
        printed = {round(value, self.digits) for value in values if value is not None}
        best = min(printed, key=_ORDERS[self.goal]) if len(printed) > 1 else None
        return [
            {
                "value": value,
                "digits": self.digits,
                "interval": result.interval_of(self.path),
                "best": value is not None and round(value, self.digits) == best,
            }
            for value, result in zip(values, evaluations, strict=True)
        ]

    def _value(self, figures: Any) -> float | None:
        for key in self.path:
            figures = None if figures is None else figures.get(key)
        return figures


_SIDE = [
    ("R@1", "r@1", 1, "most"),
    ("R@5", "r@5", 1, "most"),
    ("R@10", "r@10", 1, "most"),
    ("Med r", "med_r", 1, "least"),
    ("Mean r", "mean_r", 1, "least"),
    ("Skew", "skew@10", 2, "zero"),
]
# The sums of both directions come first, because most screens hide the last columns.
_HEADS = {
    "Both": [Column("rsum", ("rsum",), 1, "most"), Column("hs-sum", ("hs_sum",), 2, "zero")],
    **{
        HEADINGS[side]: [Column(label, (side, key), digits, goal) for label, key, digits, goal in _SIDE]
        for side in DIRECTIONS
    },
}


def rankings(results: Results, collector: Collector) -> dict:
    evaluations = [result for group in results.groups for result in group.evaluations()]
    return {
        "groups": [_ranking_table(group) for group in results.groups],
        "heads": _HEADS,
        "intervals": any(result.interval for result in evaluations),
        "matchings": any(result.matching for result in evaluations),
        "transductive": any(result.transductive for result in evaluations),
    }


def _ranking_table(group: Group) -> dict:
    evaluations = group.evaluations()
    columns = [column.cells(evaluations) for columns in _HEADS.values() for column in columns]
    return {
        "dataset": group.catalogue.dataset,
        "rows": list(zip(evaluations, map(_bank, evaluations), zip(*columns, strict=True), strict=True)),
        "repeated": [run for run in group.methods if run.repetitions],
    }


def _bank(result: Evaluation) -> str:
    """``none``, ``train``, ``transductive``, or both, for a matching on corrected scores."""
    bank = result.metrics["bank"]
    if not result.transductive:
        return bank
    return "transductive" if bank in ("none", result.metrics["split"]) else f"{bank}, transductive"


_JUDGED = {"R@1": "r@1", "mAP@R": "map@r", "R-precision": "r_precision", "Graded nDCG@10": "graded_ndcg@10"}
_KENDALL = {"tau-b": "tau_b", "tau-c": "tau_c"}


def judged(results: Results, collector: Collector) -> dict | None:
    """None when no evaluation has such figures."""
    groups = []
    for group in results.groups:
        rows = [item for item in group.evaluations() if "judged" in item.metrics]
        groups += [{"dataset": group.catalogue.dataset, "rows": rows}] if rows else []
    headings = {direction: HEADINGS[direction] for direction in DIRECTIONS}
    return {"groups": groups, "headings": headings, "columns": _JUDGED, "kendall": _KENDALL} if groups else None


def published(results: Results, collector: Collector) -> dict | None:
    """Published beside measured figures of runs that name a row. Raises UsageError for no row."""
    rows = [_published(results, run, run.row) for run in results.methods() if run.row]
    return {"compared": rows} if rows else None


def _published(results: Results, run: RunResult, row: str) -> dict:
    """A table for each common criterion or for the localisation, without differences where these
    mean nothing; cautions: differences from the setting of the row."""
    localisation, params = results.localisation_of(run), results.params
    nodes = [params.runs[name] for name in params.trainings(run.name) if name in params.runs]
    trained = [(node, params.features[node.features]) for node in nodes]
    measured = [(f"ranked with {name}", result.metrics, name) for name, result in run.evaluations.items()]
    if localisation:
        measured.append(("localised", localisation, BASELINE))
    tables = []
    for ranking, metrics, inference in measured:
        if rows := overlay.compared_figures(row, metrics, inference, trained):
            entry = overlay.rows_of_model(row)[inference]
            paper = catalogue.load(entry.paper)
            title = f"{paper.title} ({paper.venue}), row {entry.id}"
            reasons = overlay.incomparable(row, metrics, inference, trained)
            tables.append({"ranking": ranking, "title": title, "rows": rows, "reasons": reasons})
    cautions = overlay.cautions(row, {**run.baseline.metrics, **(localisation or {})}, run.params)
    return {"run": run.name, "kind": run.kind, "row": row, "tables": tables, "cautions": cautions}


# The same number as for the intervals of evaluate.
_RESAMPLES = 1000


def claims(results: Results, collector: Collector) -> dict | None:
    path = results.params.report.claims
    if path is None:
        return None
    file = report_claims.read(path)
    # A missing run is no error: the page shows the existing runs.
    verdicts = report_claims.judged(results.params, file, _RESAMPLES, results.params.seed, skip_unknown=True)
    rows = [report_claims.cells(verdict) for verdict in verdicts]
    counted, caption = report_claims.counted(verdicts), report_claims.caption(_RESAMPLES, results.params.seed)
    return {"title": file.title, "header": report_claims.HEADER, "rows": rows, "counted": counted, "caption": caption}
