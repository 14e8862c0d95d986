"""R@K of a matching against the candidates for lambda (Fig. 4 of the RGM paper)."""

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.report import charts as report_charts
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Group, Results


def context(results: Results, collector: Collector) -> dict | None:
    """None when no criterion chose its lambda."""
    names = {"validation": "validation", "ranked": results.params.evaluate.split}
    groups = [_group(group, names, collector) for group in results.groups]
    groups = [group for group in groups if group["runs"]]
    return {"groups": groups, "names": names} if groups else None


def _group(group: Group, names: dict[str, str], collector: Collector) -> dict:
    runs = []
    for run in group.first_models:
        relaxations = {name: result.relaxation for name, result in run.evaluations.items()}
        if tables := {name: table.to_pandas() for name, table in relaxations.items() if table is not None}:
            sides = [_side(tables, direction, names, collector) for direction in DIRECTIONS]
            head = {"run": run.name, "kind": run.kind, "open": run is group.best_run}
            runs.append({**head, "criteria": list(tables), "sides": sides})
    return {"dataset": group.catalogue.name, "runs": runs}


def _side(tables: dict[str, pd.DataFrame], direction: str, names: dict[str, str], collector: Collector) -> dict:
    charts, rows = [], []
    for k in KS:
        curves = {name: table[(table["direction"] == direction) & (table["k"] == k)] for name, table in tables.items()}
        figures = [_row(name, k, table) for name, table in curves.items()]
        label = f"R@{k}, {direction.replace('_', ' ')}, against lambda: " + "; ".join(map(_sentence, figures))
        chart = collector.chart(report_charts.curves(curves, names), f"{label}.")
        charts.append({"k": k, "chart": chart})
        rows += figures
    values = sorted({float(lam) for table in tables.values() for lam in table["lambda"]})
    return {
        "heading": HEADINGS[direction],
        "charts": charts,
        "rows": rows,
        "values": _values(tables, direction, values),
        "columns": [(name, k) for name in tables for k in KS],
    }


def _row(name: str, k: int, table: pd.DataFrame) -> dict:
    chosen = table[table["chosen"]].iloc[0]
    tried = table[table["ranked"].notna()]
    return {
        "inference": name,
        "k": k,
        "lambda": float(chosen["lambda"]),
        "validation": [
            float(table["validation"].iloc[0]),
            float(chosen["validation"]),
            float(table["validation"].iloc[-1]),
        ],
        "ranked": [float(tried["ranked"].iloc[0]), float(chosen["ranked"]), float(tried["ranked"].iloc[-1])],
        "ends": (float(table["lambda"].iloc[0]), float(table["lambda"].iloc[-1])),
    }


def _sentence(row: dict) -> str:
    low, high = row["ends"]
    first, chosen, last = row["validation"]
    return (
        f"{row['inference']} has {first:.1f} on validation at {low:g}, {chosen:.1f} at the chosen {row['lambda']:g} "
        f"and {last:.1f} at {high:g}"
    )


def _values(tables: dict[str, pd.DataFrame], direction: str, values: list[float]) -> list[tuple]:
    """The validation curves as a table: one row a lambda, one column a criterion and K."""
    columns = []
    for table in tables.values():
        for k in KS:
            rows = table[(table["direction"] == direction) & (table["k"] == k)]
            columns.append(dict(zip(rows["lambda"], rows["validation"], strict=True)))
    return [(lam, [column.get(lam) for column in columns]) for lam in values]
