"""The main figures, their protocol and their limits."""

from vse_pipe.artifacts.evaluation import DIRECTIONS, few_items
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results, RunResult

_TIES = {
    "pessimistic": "Ties count against the query: an item that scores the same as the correct one ranks before it.",
    "average": "Ties are shared: an item that scores the same as the correct one counts as half a rank before it.",
    "optimistic": "Ties count for the query: an item that scores the same as the correct one ranks behind it.",
}


def context(results: Results, collector: Collector) -> dict:
    return {
        "groups": [_group(group) for group in results.groups],
        "split": results.params.evaluate.split,
        "inferences": results.params.grid.inferences,
        "protocol": protocol(results.params.evaluate),
        "ties": _TIES[results.params.evaluate.ties],
    }


def protocol(evaluate: EvaluateParams) -> str:
    if evaluate.protocol == "full":
        return f"Every query of the {evaluate.split} split ranks all items of that split."
    if evaluate.protocol == "first":
        return f"Every query of the {evaluate.split} split's first {evaluate.fold_size:,} images ranks all items of theirs."
    return (
        f"The {evaluate.split} split is cut into consecutive folds of {evaluate.fold_size:,} images; a query ranks "
        "the items of its own fold, and every figure is the mean over the folds."
    )


def _group(group: Group) -> dict:
    method, best = group.plain_method, group.best_method.best
    head = method.baseline
    strict = [result for result in group.evaluations() if not result.transductive]
    return {
        "dataset": group.catalogue.name,
        "head": head,
        "best": best,
        "gain": best.rsum - group.best_method.baseline.rsum,
        "baseline": group.best_method.baseline.inference,
        "count": len(group.evaluations()),
        "tuned": any(best.metrics["tuned"].values()),
        "kinds": {run.name: run.kind for run in group.methods},
        "strict": max(strict, key=lambda result: result.rsum, default=None),
        "few": few_items(head.metrics),
        "mixed": len({result.metrics.get("data") for run in group.runs for result in run.evaluations.values()}) > 1,
        "repeated": {run.name: len(run.repetitions) for run in group.methods if run.repetitions},
        "sizes": {direction: (len(head.queries(direction)), len(head.items(direction))) for direction in DIRECTIONS},
        "matrix": _matrix(group, best),
        "transductive": {result.inference for result in group.evaluations() if result.transductive},
    }


def _matrix(group: Group, best: Evaluation) -> dict:
    """rsum of each run under each criterion, with the gain over the baseline of the run. The longer list has the rows,
    so that the table stays narrow."""
    runs = [run.name for run in group.methods]
    criteria = list(dict.fromkeys(name for run in group.methods for name in run.evaluations))
    cells = [[_cell(run, run.evaluations.get(name), best) for name in criteria] for run in group.methods]
    if len(criteria) > len(runs):
        return {
            "corner": "Criterion",
            "heads": runs,
            "rows": list(zip(criteria, zip(*cells, strict=True), strict=True)),
        }
    return {"corner": "Run", "heads": criteria, "rows": list(zip(runs, cells, strict=True))}


def _cell(run: RunResult, result: Evaluation | None, best: Evaluation) -> dict | None:
    """None for a criterion without an evaluation."""
    if result is None:
        return None
    return {
        "one": result,
        "gain": None if result is run.baseline else result.rsum - run.baseline.rsum,
        "best": result is best,
    }
