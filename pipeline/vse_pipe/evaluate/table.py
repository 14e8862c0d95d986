"""The table of figures that ``evaluate`` and ``rank`` print, with a sentence for what each figure means."""

from collections.abc import Sequence

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
    """At a narrow terminal the interval of rsum stands below it."""
    table = _table(labels, results, " ")
    console.show(table if console.fits(table) else _table(labels, results, "\n"))


def _table(labels: Sequence[str], results: dict[tuple[str, ...], dict], joint: str):
    """joint: the text between rsum and its interval."""
    table = console.ruled(caption="\n".join(figure_notes(list(results.values()))))
    if joint != " ":
        table.padding = 0
    for name in labels:
        table.add_column(name)
    depths = {int(name[2:]) for side in _sides(results) for name in side if name.startswith("r@")}
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
        table.add_row(*names, *recalls, _rsum(metrics, joint), _hs_sum(metrics), style=style)
    return table


def _hs_sum(metrics: dict) -> str:
    """A dash when all items were retrieved equally often."""
    return "-" if metrics["hs_sum"] is None else f"{metrics['hs_sum']:.2f}"


def _sides(results: dict[tuple[str, ...], dict]) -> list[dict]:
    return [metrics[direction] for metrics in results.values() for direction in evaluation.DIRECTIONS]


def _rsum(metrics: dict, joint: str) -> str:
    """rsum with its interval, if there is one."""
    interval = metrics.get("intervals", {}).get("rsum")
    return f"{metrics['rsum']:.1f}" + (f"{joint}[{interval[0]:.1f}, {interval[1]:.1f}]" if interval else "")


def figure_notes(results: Sequence[dict]) -> list[str]:
    """The meaning and the setting of the figures, one sentence a line. results: metrics documents."""
    first = results[0]
    ranked = "vectors from files" if first["split"] == "files" else f"{first['split']} split"
    lines = [
        f"{ranked}, protocol {first['protocol']}; r@K: share of queries with a correct item among the best K, in percent"
    ]
    if any("rsum" in metrics.get("intervals", {}) for metrics in results):
        lines[0] += "; in brackets the 95% interval"
    lines += evaluation.few_items(first) + _by_bank(results) + _tuned_elsewhere(results) + _further(results)
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
        + _unranked(metrics[key][evaluation.DIRECTIONS[0]])
        for metrics in results
        for key, name, figure in (("judged", "mAP@R", "map@r"), ("plausible", "PMRP", "pmrp"))
        if key in metrics
    ]


def _unranked(figures: dict) -> str:
    count = figures.get("unranked", 0)
    return (
        f"; {count} of {count + figures['kendall']['judgements']} judgements are of pairs that are not ranked"
        if count
        else ""
    )


def _by_bank(results: Sequence[dict]) -> list[str]:
    """One line for each bank or matching with its criteria; none for criteria that rank each query alone."""
    groups: dict[str, list[str]] = {}
    for metrics in results:
        names = groups.setdefault(_correction(metrics), [])
        if metrics["inference"] not in names:
            names.append(metrics["inference"])
    return [f"{', '.join(names)}: {correction}" for correction, names in groups.items() if correction]


def _tuned_elsewhere(results: Sequence[dict]) -> list[str]:
    """One line for each other data set that chose parameters, with the criteria."""
    groups: dict[str, dict[str, None]] = {}
    for metrics in results:
        if "tuned_on" in metrics:
            groups.setdefault(metrics["tuned_on"], {})[metrics["inference"]] = None
    return [
        f"{', '.join(names)}: parameters chosen on {source}; the ranked data set has no split val"
        for source, names in groups.items()
    ]


def _correction(metrics: dict) -> str:
    bank, together = metrics["bank"], "transductive: a result depends on the other queries"
    if bank == "none":
        return f"queries are matched together ({together})" if metrics["transductive"] else ""
    if bank in (metrics["split"], "test"):
        return f"hubs corrected with the {bank} queries themselves ({together})"
    matched = f"; queries are matched together ({together})" if metrics["transductive"] else " (inductive)"
    return f"hubs corrected with the queries of {bank}{matched}"
