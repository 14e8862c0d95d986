"""Learning curves."""

from vse_pipe.report import charts
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Group, Results, TrainedRun


def context(results: Results, collector: Collector) -> dict | None:
    groups = [_group(group, collector) for group in results.groups if group.with_curves]
    return {"groups": groups} if groups else None


def _group(group: Group, collector: Collector) -> dict:
    rows = [_row(run) for run in group.with_curves]
    best = max(rows, key=lambda row: row["rsum"])
    label = f"Validation rsum per epoch of {len(rows)} runs; the best is {best['run']} with {best['rsum']:.1f} at epoch {best['epoch']}."
    losses = []
    for row, run in zip(rows, group.with_curves, strict=True):
        text = f"Training loss of {row['run']}: {row['first']:.4g} in the first epoch, {row['last']:.4g} in the last of {row['epochs']}."
        losses.append(
            {"run": row["run"], "loss": row["name"], "chart": collector.chart(charts.training(run.history), text)}
        )
    validation = charts.validation({run.name: run.history for run in group.with_curves})
    return {
        "dataset": group.catalogue.name,
        "validation": collector.chart(validation, label),
        "losses": losses,
        "rows": rows,
        "epochs": _epochs(group),
    }


def _row(run: TrainedRun) -> dict:
    table = run.history
    best = table.loc[table["val_rsum"].idxmax()]
    loss, scheme = run.member("loss"), run.member("scheme")
    return {
        "run": run.name,
        "name": loss if scheme == "plain" else f"{loss}, {scheme}",
        "epochs": len(table),
        "epoch": int(best["epoch"]),
        "rsum": float(best["val_rsum"]),
        "first": float(table["loss"].iloc[0]),
        "last": float(table["loss"].iloc[-1]),
    }


def _epochs(group: Group) -> dict:
    """The first chart as a table: validation rsum, one row an epoch and one column a run."""
    columns = {run.name: run.history.set_index("epoch")["val_rsum"] for run in group.with_curves}
    epochs = sorted({int(epoch) for column in columns.values() for epoch in column.index})
    rows = [
        (epoch, [float(column[epoch]) if epoch in column.index else None for column in columns.values()])
        for epoch in epochs
    ]
    return {"runs": list(columns), "rows": rows}
