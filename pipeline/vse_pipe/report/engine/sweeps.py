"""Runs that differ in one value, against that value: what ``report.sweeps`` of params.yaml asks for."""

import statistics
from dataclasses import dataclass

import pandas as pd

from vse_pipe.project.params import checks as addresses
from vse_pipe.project.params.schema import SweepNode
from vse_pipe.project.params.typed import Params
from vse_pipe.report.engine import settings
from vse_pipe.report.engine.results import Results, RunResult, TrainedRun

COLUMNS = ["sweep", "x_name", "x", "run", "inference", "rsum", "val_rsum", "val_epoch"]
_DECIMALS = 4


@dataclass(frozen=True)
class Point:
    """x: the value swept over, None for a baseline; rsum: on the split that is measured, interval: 95%, where there is
    one; val_rsum, val_epoch: of the kept epoch, None of what was not trained."""

    x: int | float | None
    run: str
    rsum: float
    interval: tuple[float, float] | None
    val_rsum: float | None
    val_epoch: int | None


@dataclass(frozen=True)
class Sweep:
    """points: by x, then in the order of params.yaml, and none for learning curves; histories: of the runs swept over."""

    name: str
    node: SweepNode
    points: list[Point]
    baselines: list[Point]
    histories: dict[str, pd.DataFrame]

    @property
    def curves(self) -> bool:
        return self.node.x == addresses.EPOCH

    @property
    def title(self) -> str:
        return self.node.title or self.node.x


def collect(results: Results) -> list[Sweep]:
    """The sweeps of params.yaml, in its order."""
    runs = {run.name: run for run in (*results.methods(), *results.runs())}
    return [_sweep(name, node, runs, results.params) for name, node in results.params.report.sweeps.items()]


def table(results: Results) -> pd.DataFrame:
    """A row a run, baselines with no x; of learning curves a row an epoch, with no criterion and no rsum but that on
    validation. Columns as in COLUMNS; numbers that may be absent are objects, so that 1 is not written 1.0."""
    rows = []
    for sweep in collect(results):
        if sweep.curves:
            rows += _epochs(sweep)
        else:
            rows += [_row(sweep, point) for point in (*sweep.points, *sweep.baselines)]
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object)


def _sweep(name: str, node: SweepNode, runs: dict[str, RunResult], params: Params) -> Sweep:
    histories = {one.name: one.history for run in node.runs for one in _models(runs[run])}
    if node.x == addresses.EPOCH:
        return Sweep(name, node, [], [], histories)
    values = {run: _value(runs[run], params, node.x) for run in node.runs}
    points = [_point(runs[run], node, values[run]) for run in sorted(node.runs, key=values.__getitem__)]
    baselines = [_point(runs[run], node, None) for run in node.baselines]
    return Sweep(name, node, points, baselines, histories)


def _value(run: RunResult, params: Params, x: str) -> int | float:
    """The value that it was trained with; that of params.yaml where its config.json does not say."""
    models = [one for one in run.repetitions or (run,) if isinstance(one, TrainedRun)]
    made = settings.trained_at(models[0], x) if models else None
    return made if isinstance(made, int | float) else addresses.value(params, run.name, x)


def _point(run: RunResult, node: SweepNode, x: int | float | None) -> Point:
    kept = [one.history.loc[one.history["val_rsum"].idxmax()] for one in _models(run)]
    one = run.evaluations[node.inference]
    if not kept:
        return Point(x, run.name, one.rsum, one.interval, None, None)
    val_rsum, epoch = (statistics.fmean(float(row[key]) for row in kept) for key in ("val_rsum", "epoch"))
    return Point(x, run.name, one.rsum, one.interval, val_rsum, round(epoch))


def _models(run: RunResult) -> list[TrainedRun]:
    """Of a run with seeds all of its models; those that were trained."""
    return [one for one in run.repetitions or (run,) if isinstance(one, TrainedRun) and len(one.history)]


def _row(sweep: Sweep, point: Point) -> dict:
    return {
        **_names(sweep, point.run),
        "x": point.x,
        "inference": sweep.node.inference,
        "rsum": round(point.rsum, _DECIMALS),
        "val_rsum": None if point.val_rsum is None else round(point.val_rsum, _DECIMALS),
        "val_epoch": point.val_epoch,
    }


def _epochs(sweep: Sweep) -> list[dict]:
    return [
        {**_names(sweep, run), "x": int(epoch), "val_rsum": round(float(rsum), _DECIMALS), "val_epoch": int(epoch)}
        for run, history in sweep.histories.items()
        for epoch, rsum in zip(history["epoch"], history["val_rsum"], strict=True)
    ]


def _names(sweep: Sweep, run: str) -> dict:
    return {"sweep": sweep.name, "x_name": sweep.node.x, "run": run}
