"""The figures of several evaluations on the terminal: a table for people, one JSON document for programs."""

import json

from pipeline.artifacts.evaluation import DIRECTIONS, KS
from pipeline.console import stdout

_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}


def show(results: dict[tuple[str, str], dict], as_json: bool) -> None:
    """results: metrics by (run, inference). JSON is keyed run, then inference; percentages are 0 to 100."""
    if as_json:
        nested: dict[str, dict[str, dict]] = {}
        for (run, inference), metrics in results.items():
            nested.setdefault(run, {})[inference] = metrics
        stdout.file.write(json.dumps(nested, indent=2, sort_keys=True, allow_nan=False) + "\n")
        return
    from rich.table import Table

    table = Table(caption=_protocol(results))
    for name in ("run", "inference"):
        table.add_column(name)
    columns = [(direction, f"r@{k}") for direction in DIRECTIONS for k in KS]
    for name in [*(f"{_SHORT[direction]} {metric}" for direction, metric in columns), "rsum", "hs-sum"]:
        table.add_column(name, justify="right")
    best = max(metrics["rsum"] for metrics in results.values())
    for (run, inference), metrics in results.items():
        recalls = [f"{metrics[direction][metric]:.1f}" for direction, metric in columns]
        style = "bold" if metrics["rsum"] == best and len(results) > 1 else ""
        table.add_row(
            run, inference, *recalls, f"{metrics['rsum']:.1f}", f"{metrics['hs_sum']:.2f}", style=style
        )
    stdout.print(table)


def _protocol(results: dict[tuple[str, str], dict]) -> str:
    """What the figures mean, in one line below the table."""
    one = next(iter(results.values()))
    banks = sorted({metrics["bank"] for metrics in results.values()} - {"none"})
    looked = (
        f"; hubs corrected with the {' and '.join(banks)} queries themselves (transductive)" if banks else ""
    )
    return f"{one['split']} split, protocol {one['protocol']}; r@K: share of queries with a correct item among the best K, in percent{looked}"
