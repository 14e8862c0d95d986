"""The table of figures that ``evaluate`` and ``rank`` print, with a sentence for what each figure means."""

from collections.abc import Callable, Sequence

from vse_pipe.artifacts import evaluation
from vse_pipe.core import console

_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}


def show_results(results: dict[tuple[str, ...], dict], as_json: bool) -> None:
    """results: metrics by (run, inference). JSON is keyed run, then inference; percentages are 0 to 100."""
    if not as_json:
        return _show(("run", "inference"), results)
    nested: dict[str, dict[str, dict]] = {}
    for (run, inference), metrics in results.items():
        nested.setdefault(run, {})[inference] = metrics
    return console.document(nested)


def show_file_results(results: dict[str, dict], as_json: bool) -> None:
    """results: metrics by inference. JSON is the only document, or the documents keyed by criterion."""
    if as_json:
        return console.document(next(iter(results.values())) if len(results) == 1 else results)
    return _show(("inference",), {(name,): metrics for name, metrics in results.items()})


def _show(labels: Sequence[str], results: dict[tuple[str, ...], dict]) -> None:
    print_table(labels, results)
    for names, metrics in results.items():
        if "by_group" in metrics:
            from vse_pipe.evaluate import groups

            groups.show(" ".join(names), metrics["by_group"])


def print_table(labels: Sequence[str], results: dict[tuple[str, ...], dict]) -> None:
    """The interval of rsum stands below it."""
    table = console.ruled(caption="\n".join(figure_notes(list(results.values()))))
    for name in labels:
        table.add_column(name)
    sides = [metrics[direction] for metrics in results.values() for direction in evaluation.DIRECTIONS]
    depths = {int(name[2:]) for side in sides for name in side if name.startswith("r@")}
    columns = [(direction, f"r@{k}") for direction in evaluation.DIRECTIONS for k in sorted(depths)]
    for name in [*(f"{_SHORT[direction]}\n{metric}" for direction, metric in columns), "rsum", "hs-sum"]:
        table.add_column(name, justify="right", no_wrap=True)
    best = max(metrics["rsum"] for metrics in results.values())
    for names, metrics in results.items():
        # Matchings have no recalls beyond the three of rsum.
        recalls = [
            f"{metrics[direction][metric]:.1f}" if metric in metrics[direction] else "" for direction, metric in columns
        ]
        style = "bold" if metrics["rsum"] == best and len(results) > 1 else ""
        rsum, interval = f"{metrics['rsum']:.1f}", metrics.get("intervals", {}).get("rsum")
        rsum += "\n[{:.1f}, {:.1f}]".format(*interval) if interval else ""
        # A dash where all items were retrieved equally often.
        hs_sum = "-" if metrics["hs_sum"] is None else f"{metrics['hs_sum']:.2f}"
        table.add_row(*names, *recalls, rsum, hs_sum, style=style)
    console.show(table)


def figure_notes(results: Sequence[dict]) -> list[str]:
    """The meaning and the setting of the figures, one sentence a line. results: metrics documents."""
    first = results[0]
    ranked = "vectors from files" if first["split"] == "files" else f"{first['split']} split"
    lines = [
        f"{ranked}, protocol {first['protocol']}; r@K: share of queries with a correct item among the best K, in percent"
    ]
    if any("rsum" in metrics.get("intervals", {}) for metrics in results):
        lines[0] += "; in brackets the 95% interval"
    lines += evaluation.few_items(first) + _further(results)
    lines += _by_circumstance(results, _correction) + _by_circumstance(results, _tuned_elsewhere)
    for direction in evaluation.DIRECTIONS:
        left_out = first[direction].get("unjudged", 0)
        if left_out:
            queries = left_out + first[direction]["queries"]
            lines.append(
                f"{_SHORT[direction]}: {left_out} of {queries} queries have no judged item and are in no figure, hubness included"
            )
    return lines


def _further(results: Sequence[dict]) -> list[str]:
    """One line for each criterion with figures from judgements or labels; the document has further figures."""
    return [
        f"{metrics['inference']}, by {metrics[key]['file']}: {name} "
        + ", ".join(f"{_SHORT[direction]} {metrics[key][direction][figure]:.1f}" for direction in evaluation.DIRECTIONS)
        for metrics in results
        for key, name, figure in (("judged", "mAP@R", "map@r"), ("plausible", "PMRP", "pmrp"))
        if key in metrics
    ]


def _by_circumstance(results: Sequence[dict], circumstance: Callable[[dict], str]) -> list[str]:
    """One line for each circumstance, with its criteria."""
    groups: dict[str, dict[str, None]] = {}
    for metrics in results:
        groups.setdefault(circumstance(metrics), {})[metrics["inference"]] = None
    return [f"{', '.join(names)}: {sentence}" for sentence, names in groups.items() if sentence]


def _tuned_elsewhere(metrics: dict) -> str:
    source = metrics.get("tuned_on")
    return f"parameters chosen on {source}; the ranked data set has no split val" if source else ""


def _correction(metrics: dict) -> str:
    """Empty for criteria that rank each query alone."""
    bank, together = metrics["bank"], "transductive: a result depends on the other queries"
    if bank == "none":
        return f"queries are matched together ({together})" if metrics["transductive"] else ""
    if bank in (metrics["split"], "test"):
        return f"hubs corrected with the {bank} queries themselves ({together})"
    matched = f"; queries are matched together ({together})" if metrics["transductive"] else " (inductive)"
    return f"hubs corrected with the queries of {bank}{matched}"
