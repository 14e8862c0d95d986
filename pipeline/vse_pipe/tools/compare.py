"""compare: differences between evaluations as tables, Markdown and JSON, and --max-drop."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vse_pipe.core import console
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import comparison as comparer
from vse_pipe.ranking.comparison import Comparison, Difference, corrected
from vse_pipe.ranking.intervals import nest
from vse_pipe.report.formatting import markdown_row, spread
from vse_pipe.tools import revisions
from vse_pipe.tools.revisions import Place

if TYPE_CHECKING:
    from rich.console import JustifyMethod

# Fewer resamples say little about the variance of a figure.
FEWEST_RESAMPLES = 40
_WATCHED = ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "rsum")


def check(comparisons: list[Comparison], max_drop: float) -> None:
    """Raises PipelineError if a figure of ``_WATCHED`` is lower in B than in A by more than ``max_drop`` points with p <
    0.05.

    With several B's the p-value is Holm's. Med r, Mean r and hubness do not count.
    """
    lines = [
        f"{comparison.b.metrics.get('inference')}: {' '.join(row.address)} fell by {-row.difference:.2f} "
        f"({row.a:.2f} to {row.b:.2f}, p = {row.decisive:.3f}); allowed is {max_drop:g}"
        for comparison in comparisons
        for row in comparison.rows
        if row.address[-1] in _WATCHED and -row.difference > max_drop and row.significant
    ]
    if lines:
        raise PipelineError(*lines)


_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i", "hs_sum": "hs-sum"}
_HEADER = ("metric", "A", "B", "B - A", "95% interval", "p")
_BREAKING = ("metric", "A", "B", "95% interval")  # cells that a narrow terminal breaks at spaces
_FINE = ("gini", "robin_hood")
_DIGITS = 6


def terminal(comparisons: list[Comparison], resamples: int, seed: int) -> None:
    """Print a table for each comparison; rows with p < 0.05 are bold."""
    from rich.table import Table

    for comparison in comparisons:
        table = Table(title=_title(comparison), caption=_caption(comparison, resamples, seed))
        for name in _header(comparison):
            justify: JustifyMethod = "left" if name == "metric" else "right"
            table.add_column(name, justify=justify, no_wrap=name not in _BREAKING)
        for row in comparison.rows:
            table.add_row(*_cells(row), style="bold" if row.significant else "")
        console.show(table)


def markdown(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """GitHub-flavoured Markdown: a heading, a table and a line of protocol for each comparison."""
    parts = []
    for comparison in comparisons:
        lines = [
            f"### {_title(comparison)}",
            "",
            markdown_row(_header(comparison)),
            markdown_row(("---", *["---:"] * (len(_HEADER) - 1))),
        ]
        lines += [markdown_row(_cells(row)) for row in comparison.rows]
        parts.append("\n".join([*lines, "", _caption(comparison, resamples, seed), ""]))
    return "\n".join(parts)


def document(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """``{"resamples", "seed", "comparisons": [{"a", "b", "split", "protocol", "ties", "images",
    "image_to_text": {metric: {"a", "b", "difference", "interval", "p"}}, "text_to_image", "rsum",
    "hs_sum"}]}``: keys sorted, numbers finite, interval and p optional. Runs with seeds add "seeds"
    in "a" and "b", "paired", and "a_sd" and "b_sd" of each figure; several B's add "p_holm". "a"
    and "b" have "unconverged" for trainings that have not: the reason by training."""
    content = {"resamples": resamples, "seed": seed, "comparisons": [_plain(comparison) for comparison in comparisons]}
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(comparison: Comparison) -> dict:
    plain: dict = {"images": comparison.images}
    for name, side in (("a", comparison.a), ("b", comparison.b)):
        plain[name] = {"name": side.name} | {key: side.metrics.get(key) for key in ("inference", "bank")}
        plain[name] |= {"seeds": side.seeds} if side.seeds else {}
        plain[name] |= {"unconverged": side.unconverged} if side.unconverged else {}
    if comparison.a.seeds or comparison.b.seeds:
        plain["paired"] = comparison.is_paired
    plain |= {key: comparison.b.metrics.get(key) for key in ("split", "protocol", "ties")}
    for row in comparison.rows:
        numbers = {"a": row.a, "b": row.b, "difference": row.difference, "p": row.p, "p_holm": row.holm}
        numbers |= {f"{side}_sd": sd for side, sd in zip("ab", row.deviations, strict=True)}
        cells: dict[str, Any] = {key: _rounded(value) for key, value in numbers.items() if value is not None}
        cells |= {"interval": [_rounded(end) for end in row.interval]} if row.interval else {}
        nest(plain, row.address, cells)
    return plain


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # never -0.0


def _title(comparison: Comparison) -> str:
    a, b = (f"{side.name} ({side.metrics.get('inference')})" for side in (comparison.a, comparison.b))
    return f"A: {a}, B: {b}"


def _caption(comparison: Comparison, resamples: int, seed: int) -> str:
    metrics = (comparison.a.metrics, comparison.b.metrics)
    banks = [f"{side.get('bank')}{' (transductive)' if side.get('transductive') else ''}" for side in metrics]
    bank = banks[0] if banks[0] == banks[1] else f"{banks[0]} in A, {banks[1]} in B"
    parts = [
        f"{metrics[1].get('split')} split, protocol {metrics[1].get('protocol')}, ties {metrics[1].get('ties')}, "
        f"query bank {bank}",
        f"{resamples} draws of {comparison.images} images with their captions, seed {seed}",
        *_trainings(comparison),
        "p of each figure by itself, two-sided"
        + (f", corrected for the {comparison.at_once} comparisons with A (Holm)" if comparison.at_once > 1 else ""),
    ]
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        parts += [f"in {name} {run} has not converged: {reason}" for run, reason in side.unconverged.items()]
    return "; ".join(parts)


def _trainings(comparison: Comparison) -> list[str]:
    """The parts of the caption about seeds; none if both runs have a single training."""
    sides = {"A": comparison.a, "B": comparison.b}
    if not any(side.seeds for side in sides.values()):
        return []
    if comparison.is_paired:
        return [f"mean ± standard deviation over seeds {', '.join(map(str, comparison.a.seeds))}, paired"]
    counts = ", ".join(f"{len(side)} in {name}" for name, side in sides.items())
    single = " and ".join(name for name, side in sides.items() if len(side) == 1)
    doubt = [f"of {single} one model, whose chance in training is in no interval"] if single else []
    return [f"mean ± standard deviation over trainings, {counts}, not paired", *doubt]


def _header(comparison: Comparison) -> tuple[str, ...]:
    return (*_HEADER[:-1], "p (Holm)") if comparison.at_once > 1 else _HEADER


def _cells(row: Difference) -> list[str]:
    digits = 3 if row.address[-1].startswith(_FINE) else 2
    name = " ".join(_SHORT.get(part, part) for part in row.address)
    means = [spread(mean, sd, digits) for mean, sd in zip((row.a, row.b), row.deviations, strict=True)]
    ends = "-" if row.interval is None else " to ".join(f"{end:+z.{digits}f}" for end in row.interval)
    p = "-" if row.decisive is None else f"{row.decisive:.3f}"
    return [name, *means, f"{row.difference:+z.{digits}f}", ends, p]


def compare(
    run_a: str,
    runs_b: Sequence[str],
    start: Path,
    params: Params | None,
    *,
    inference: str | None = None,
    base: str | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Comparison]:
    """For each B one comparison for ``inference``, or for each criterion of both sides in the order
    of grid.inferences.

    run_a, runs_b: a run of the project, or a folder with metrics.json, ranks.parquet and
    occurrence.parquet, relative to ``start``; params: of the project in the working directory, None
    outside a project; base: git revision of side A. With several B's p-values are corrected for
    their number. Raises UsageError for unknown names, MissingResource if
    data of ``base`` is not in the DVC cache, InputError for evaluations that cannot be paired.
    """
    if not runs_b and base is None:
        raise UsageError("compare needs RUN_B, or --base REV to compare RUN_A with what it was")
    with contextlib.ExitStack() as stack:
        past = None if base is None else revisions.past(run_a, start, params, base)
        a = revisions.find(run_a, start, params) if past is None else stack.enter_context(past)
        sides = [revisions.find(name, start, params) for name in runs_b or [run_a]]
        pairs = [(a.read(first), b.read(second)) for b in sides for first, second in _chosen(a, b, inference, params)]
    comparisons = [comparer.compare(*pair, resamples, seed) for pair in pairs]
    return comparisons if len(sides) == 1 else corrected(comparisons)


def _chosen(a: Place, b: Place, inference: str | None, params: Params | None) -> list[tuple[str, str]]:
    if inference is not None and a.single and b.single:
        raise UsageError("--inference chooses a criterion of a run; both sides are folders of one criterion")
    if a.single and b.single:
        return [(a.criteria()[0], b.criteria()[0])]
    if inference is None and (a.single or b.single):
        inference = (a if a.single else b).criteria()[0]
    names = revisions.common(a, b, params.grid.inferences if params else []) if inference is None else [inference]
    return [(name, name) for name in names]
