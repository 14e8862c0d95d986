"""The recorded options of runs and criteria; the sweeps over options."""

import statistics
from dataclasses import dataclass, replace

import pandas as pd

from vse_pipe.project.params.schema import EPOCH, SweepNode
from vse_pipe.project.params.typed import Params, flat
from vse_pipe.report.results import Results, RunResult, TrainedRun, best_epoch

MEMBERS = ("sampler", "loss", "scheme", "similarity", "text", "image")
_LONGEST = 6


def of_run(run: TrainedRun) -> list[tuple[str, str, str]]:
    """(kind, member, options) of the run's inputs, members, training and seed, as its config.json
    says."""
    config = run.config
    recorded = [*config.get("inputs", {}).items(), *((kind, config[kind]) for kind in MEMBERS if kind in config)]
    rows = [(kind, member["name"], listed(member.get("params", {}))) for kind, member in recorded]
    rows += [("train", "", listed(config["train"]))] if "train" in config else []
    return rows + ([("seed", "", str(config["seed"]))] if "seed" in config else [])


def of_criteria(results: Results) -> list[tuple[str, dict[str, list[str]]]]:
    """By criterion in the order of the grid: the runs that each text of options ranked. Directions
    with different options have separate entries."""
    return [(name, _criterion(name, results)) for name in results.params.grid.inferences]


def _criterion(name: str, results: Results) -> dict[str, list[str]]:
    variants: dict[str, list[str]] = {}
    for run in results.runs():
        if name in run.evaluations:
            options = _untuned(run.evaluations[name].metrics)
            is_same = len(set(options.values())) == 1
            for direction, text in options.items():
                label = run.name if is_same else f"{run.name}, {direction.replace('_', ' ')}"
                variants.setdefault(text, []).append(label)
    return {text: list(dict.fromkeys(runs)) for text, runs in variants.items()}


def _untuned(metrics: dict) -> dict[str, str]:
    """{direction: options} without those that validation data chose. metrics: of metrics.json."""
    tuned = metrics.get("tuned", {})
    return {
        direction: listed({key: value for key, value in values.items() if key not in tuned.get(direction, {})})
        for direction, values in metrics.get("parameters", {}).items()
    }


def listed(values: dict) -> str:
    """``gamma 30, epsilon 0.2``; options of options as ``address.option``."""
    return ", ".join(f"{key} {value_text(value)}" for key, value in flat(values).items())


def value_text(value: object) -> str:
    """The text as in params.yaml; a long list, such as a grid, is shortened to its ends."""
    if isinstance(value, list):
        texts = [value_text(item) for item in value]
        few = len(texts) <= _LONGEST
        return f"[{', '.join(texts)}]" if few else f"{texts[0]} to {texts[-1]} ({len(texts)} values)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value)


COLUMNS = ["sweep", "x_name", "x", "run", "inference", "rsum", "val_rsum", "val_epoch"]


@dataclass(frozen=True)
class Point:
    """x: the swept value, None for a baseline. rsum: on the evaluated split. interval: 95%, if
    there is one. val_rsum, val_epoch: of the best epoch, None for a run that was not trained."""

    x: int | float | None
    run: str
    rsum: float
    interval: tuple[float, float] | None
    val_rsum: float | None = None
    val_epoch: int | None = None


@dataclass(frozen=True)
class Sweep:
    """points: by x; none for learning curves. histories: of the swept runs."""

    name: str
    node: SweepNode
    points: list[Point]
    baselines: list[Point]
    histories: dict[str, pd.DataFrame]

    @property
    def curves(self) -> bool:
        return self.node.x == EPOCH

    @property
    def title(self) -> str:
        return self.node.title or self.node.x


def collect(results: Results) -> list[Sweep]:
    """The sweeps of params.yaml, in its order."""
    runs = {run.name: run for run in (*results.methods(), *results.runs())}
    return [_sweep(name, node, runs, results.params) for name, node in results.params.report.sweeps.items()]


def table(results: Results) -> pd.DataFrame:
    """A row a run, with columns COLUMNS; baselines have no x. Learning curves have a row an epoch,
    without criterion and rsum. Numbers that may be absent are objects, so that 1 is not written
    1.0."""
    rows = []
    for sweep in collect(results):
        head = {"sweep": sweep.name, "x_name": sweep.node.x}
        for point in (*sweep.points, *sweep.baselines):
            rows.append({**head, **vars(point), "inference": sweep.node.inference})
        for run, history in sweep.histories.items() if sweep.curves else ():
            for epoch, rsum in zip(history["epoch"].tolist(), history["val_rsum"].tolist(), strict=True):
                rows.append({**head, "run": run, "x": epoch, "val_rsum": rsum, "val_epoch": epoch})
    table = pd.DataFrame(rows, columns=COLUMNS, dtype=object)
    for name in ("rsum", "val_rsum"):
        table[name] = table[name].astype(float).round(4)
    return table


def _sweep(name: str, node: SweepNode, runs: dict[str, RunResult], params: Params) -> Sweep:
    histories = {model.name: model.history for run in node.runs for model in _models(runs[run])}
    if node.x == EPOCH:
        return Sweep(name, node, [], [], histories)
    values = {run: params.number(run, node.x) for run in node.runs}
    points = [_point(runs[run], node, values[run]) for run in sorted(node.runs, key=values.__getitem__)]
    return Sweep(name, node, points, [_point(runs[run], node, None) for run in node.baselines], histories)


def _point(run: RunResult, node: SweepNode, x: int | float | None) -> Point:
    best = [best_epoch(model.history) for model in _models(run)]
    evaluation = run.evaluations[node.inference]
    point = Point(x, run.name, evaluation.rsum, evaluation.interval)
    if not best:
        return point
    val_rsum, epoch = (statistics.fmean(float(row[key]) for row in best) for key in ("val_rsum", "epoch"))
    return replace(point, val_rsum=val_rsum, val_epoch=round(epoch))


def _models(run: RunResult) -> list[TrainedRun]:
    return [model for model in run.repetitions or (run,) if isinstance(model, TrainedRun) and len(model.history)]
