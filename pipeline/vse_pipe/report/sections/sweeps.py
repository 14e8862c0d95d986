"""rsum of runs that differ in one value, as a chart and a table."""

from vse_pipe.report import charts, settings
from vse_pipe.report.formatting import plural
from vse_pipe.report.pictures import Chart, Collector
from vse_pipe.report.results import Results
from vse_pipe.report.settings import Point, Sweep


def context(results: Results, collector: Collector) -> dict | None:
    sweeps = settings.collect(results)
    if not sweeps:
        return None
    return {
        "sweeps": [_curves(sweep, collector) if sweep.curves else _values(sweep, collector) for sweep in sweeps],
        "split": results.params.evaluate.split,
    }


def _values(sweep: Sweep, collector: Collector) -> dict:
    best = max(sweep.points, key=lambda point: point.rsum)
    label = (
        f"rsum under {sweep.node.inference} of {plural(len(sweep.points), 'run')} against {sweep.title}; "
        f"the best is {best.rsum:.1f} at {best.x:g}, run {best.run}."
    )
    spec = charts.sweep(sweep.points, sweep.baselines, sweep.title, sweep.node.x)
    has_repeated_x = len({point.x for point in sweep.points}) < len(sweep.points)
    rows = [
        {"one": point, "best": point is best, "mean": _mean(sweep.points, index) if has_repeated_x else None}
        for index, point in enumerate(sweep.points)
    ]
    baselines = [{"one": point, "best": False, "mean": None} for point in sweep.baselines]
    intervals = any(point.interval for point in (*sweep.points, *sweep.baselines))
    more = {"rows": [*rows, *baselines], "several": has_repeated_x, "intervals": intervals}
    return _heading(sweep, collector.chart(spec, label)) | more


def _curves(sweep: Sweep, collector: Collector) -> dict:
    best_epochs = {run: history.loc[history["val_rsum"].idxmax()] for run, history in sweep.histories.items()}
    best = max(best_epochs, key=lambda run: best_epochs[run]["val_rsum"])
    label = (
        f"Validation rsum per epoch of {plural(len(best_epochs), 'run')}; "
        f"the best is {best} with {best_epochs[best]['val_rsum']:.1f} at epoch {int(best_epochs[best]['epoch'])}."
    )
    rows = [
        {"run": run, "rsum": float(row["val_rsum"]), "epoch": int(row["epoch"]), "best": run == best}
        for run, row in best_epochs.items()
    ]
    return _heading(sweep, collector.chart(charts.validation(sweep.histories), label)) | {"rows": rows}


def _heading(sweep: Sweep, chart: Chart) -> dict:
    return {
        "name": sweep.name,
        "x": sweep.node.x,
        "title": sweep.title,
        "inference": sweep.node.inference,
        "curves": sweep.curves,
        "chart": chart,
    }


def _mean(points: list[Point], index: int) -> float | None:
    """The mean at this x, for the first of the rows that share it."""
    x = points[index].x
    if index and points[index - 1].x == x:
        return None
    same = [point.rsum for point in points if point.x == x]
    return sum(same) / len(same)
