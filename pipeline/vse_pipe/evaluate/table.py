"""The table of ``evaluate`` and ``rank``, and a sentence for each figure."""

from collections.abc import Sequence

from vse_pipe.artifacts import evaluation
from vse_pipe.core import console

_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}


def show_results(results: dict[tuple[str, ...], dict], as_json: bool) -> None:
    """results: metrics by (run, inference), percentages from 0 to 100."""
    if not as_json:
        return print_table(("run", "inference"), results)
    nested: dict[str, dict[str, dict]] = {}
    for (run, inference), metrics in results.items():
        nested.setdefault(run, {})[inference] = metrics
    return console.document(nested)


def show_file_results(results: dict[str, dict], as_json: bool) -> None:
    """results: metrics by inference. JSON: the only document, or those by criterion."""
    if as_json:
        return console.document(next(iter(results.values())) if len(results) == 1 else results)
    return print_table(("inference",), {(name,): metrics for name, metrics in results.items()})


def print_table(labels: Sequence[str], results: dict[tuple[str, ...], dict]) -> None:
    """The interval of rsum stands below it, a dash where hs-sum is not defined."""
    table = console.ruled(caption="\n".join(figure_notes(list(results.values()))))
    for name in labels:
        table.add_column(name)
    widest = max(results.values(), key=lambda metrics: len(_recalls(metrics[evaluation.DIRECTIONS[0]])))
    columns = [(side, name) for side in evaluation.DIRECTIONS for name in _recalls(widest[side])]
    for name in [*(f"{_SHORT[side]}\n{metric}" for side, metric in columns), "rsum", "hs-sum"]:
        table.add_column(name, justify="right", no_wrap=True)
    best = max(metrics["rsum"] for metrics in results.values())
    for names, metrics in results.items():
        # Matchings have no recalls beyond the three of rsum.
        recalls = [_figure(metrics[side].get(metric), 1, "") for side, metric in columns]
        rsum, interval = _figure(metrics["rsum"], 1), metrics.get("intervals", {}).get("rsum")
        rsum += "\n[{:.1f}, {:.1f}]".format(*interval) if interval else ""
        style = "bold" if metrics["rsum"] == best and len(results) > 1 else ""
        table.add_row(*names, *recalls, rsum, _figure(metrics["hs_sum"], 2), style=style)
    console.show(table)


def figure_notes(results: Sequence[dict]) -> list[str]:
    """The meaning of the figures, one sentence a line. results: metrics documents."""
    first = results[0]
    ranked = "vectors from files" if first["split"] == "files" else f"{first['split']} split"
    lines = [
        f"{ranked}, protocol {first['protocol']}; r@K: share of queries with a correct item among the best K, in percent"
    ]
    if any("rsum" in metrics.get("intervals", {}) for metrics in results):
        lines[0] += "; in brackets the 95% interval"
    lines += dict.fromkeys(line for metrics in results for line in evaluation.few_items(metrics))
    criteria: dict[str, dict[str, None]] = {}
    for metrics in results:
        for sentence in filter(None, (_judged(metrics), _correction(metrics), _tuned_elsewhere(metrics))):
            criteria.setdefault(sentence, {})[metrics["inference"]] = None
    lines += [f"{', '.join(names)}: {sentence}" for sentence, names in criteria.items()]
    for side in evaluation.DIRECTIONS:
        if left_out := first[side].get("unjudged", 0):
            queries = left_out + first[side]["queries"]
            lines.append(
                f"{_SHORT[side]}: {left_out} of {queries} queries have no judged item and are in no figure, hubness included"
            )
    return lines


def _recalls(figures: dict) -> list[str]:
    """Names of R@K, by K."""
    return sorted((name for name in figures if name.startswith("r@")), key=lambda name: int(name[2:]))


def _figure(value: float | None, digits: int, absent: str = "-") -> str:
    return absent if value is None else f"{value:.{digits}f}"


def _judged(metrics: dict) -> str:
    """Figures from judgements; the document has further ones."""
    if "judged" not in metrics:
        return ""
    judged = metrics["judged"]
    figures = [f"{_SHORT[side]} {judged[side]['map@r']:.1f}" for side in evaluation.DIRECTIONS]
    return f"by {judged['file']}: mAP@R " + ", ".join(figures)


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
