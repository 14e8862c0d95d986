"""compare: differences between evaluations, as tables, Markdown and JSON, and the limit of --max-drop."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import evaluation, features
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, MissingResource, Regression, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.evaluate import groups as query_groups
from vse_pipe.evaluate import judgements
from vse_pipe.evaluate.groups import QueryGroups
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Compared, Comparison, FigureRow, Method, compared, paired
from vse_pipe.ranking.intervals import holm, nest
from vse_pipe.report.formatting import markdown_row, spread
from vse_pipe.tools import revisions
from vse_pipe.tools.revisions import Disk, Place

if TYPE_CHECKING:
    from rich.console import JustifyMethod

# With fewer resamples no p-value can be significant.
FEWEST_RESAMPLES = 40
_WATCHED = ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "rsum")


def check(comparisons: list[Comparison], max_drop: float) -> None:
    """Raises Regression if a figure of ``_WATCHED`` is lower in B than in A by more than ``max_drop`` points with p <
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
        raise Regression(*lines)


_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}
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
    "hs_sum"}]}``: keys sorted, numbers finite, interval and p optional. Runs with seeds add "seeds" in "a" and "b",
    "paired", and "a_sd" and "b_sd" of each figure; several B's add "p_holm".
    "a" and "b" have "unconverged" for trainings that have not: the reason by training. By group the figures are in "by_group", under
    the group's name, and "by" is the column."""
    content = {"resamples": resamples, "seed": seed, "comparisons": [_plain(comparison) for comparison in comparisons]}
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(comparison: Comparison) -> dict:
    plain: dict = {"images": comparison.images}
    for side, about in (("a", comparison.a), ("b", comparison.b)):
        plain[side] = {"name": about.name} | {key: about.metrics.get(key) for key in ("inference", "bank")}
        plain[side] |= {"seeds": _seeds(about)} if _seeds(about) else {}
        plain[side] |= {"unconverged": about.unconverged} if about.unconverged else {}
    plain |= {"paired": paired(comparison.a, comparison.b)} if _seeds(comparison.a) or _seeds(comparison.b) else {}
    plain |= {key: comparison.b.metrics.get(key) for key in ("split", "protocol", "ties")}
    plain |= {"by": comparison.column} if comparison.column else {}
    for row in comparison.rows:
        numbers = {"a": row.a, "b": row.b, "difference": row.difference}
        cells: dict[str, Any] = {key: _rounded(value) for key, value in numbers.items()}
        cells |= {"interval": [_rounded(end) for end in row.interval]} if row.interval is not None else {}
        cells |= {"p": _rounded(row.p)} if row.p is not None else {}
        cells |= {"p_holm": _rounded(row.holm)} if row.holm is not None else {}
        cells |= {f"{side}_sd": _rounded(sd) for side, sd in zip("ab", row.spread, strict=True) if sd is not None}
        nest(plain, ("by_group", *row.address) if comparison.column else row.address, cells)
    return plain


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # never -0.0


def _title(comparison: Comparison) -> str:
    a, b = (f"{side.name} ({side.metrics.get('inference')})" for side in (comparison.a, comparison.b))
    return f"A: {a}, B: {b}" + (f", by {comparison.column}" if comparison.column else "")


def _caption(comparison: Comparison, resamples: int, seed: int) -> str:
    metrics = (comparison.a.metrics, comparison.b.metrics)
    banks = [f"{side.get('bank')}{' (transductive)' if side.get('transductive') else ''}" for side in metrics]
    bank = f"query bank {banks[0]}" if banks[0] == banks[1] else f"query bank {banks[0]} in A, {banks[1]} in B"
    correction = f", corrected for the {comparison.at_once} comparisons with A (Holm)" if comparison.at_once > 1 else ""
    return (
        f"{metrics[1].get('split')} split, protocol {metrics[1].get('protocol')}, ties {metrics[1].get('ties')}, {bank}; "
        f"{resamples} draws of {comparison.images} images with their captions, seed {seed}; {_trainings(comparison)}"
        f"p of each figure by itself, two-sided{correction}{_unconverged(comparison)}"
    )


def _unconverged(comparison: Comparison) -> str:
    """The part of the caption about trainings that have not converged."""
    sides = (("A", comparison.a), ("B", comparison.b))
    return "".join(
        f"; in {name} {run} has not converged: {reason}"
        for name, side in sides
        for run, reason in side.unconverged.items()
    )


def _header(comparison: Comparison) -> tuple[str, ...]:
    return (*_HEADER[:-1], "p (Holm)") if comparison.at_once > 1 else _HEADER


def _seeds(side: Method) -> list[int]:
    return [int(seed) for seed in side.models if seed]


def _trainings(comparison: Comparison) -> str:
    """The part of the caption about seeds; empty if both runs have a single training."""
    if not _seeds(comparison.a) and not _seeds(comparison.b):
        return ""
    if paired(comparison.a, comparison.b):
        return f"mean ± standard deviation over seeds {', '.join(map(str, _seeds(comparison.a)))}, paired; "
    sides = (("A", comparison.a), ("B", comparison.b))
    counts = ", ".join(f"{len(side)} in {name}" for name, side in sides)
    single = " and ".join(name for name, side in sides if len(side) == 1)
    doubt = f"; of {single} one model, whose chance in training is in no interval" if single else ""
    return f"mean ± standard deviation over trainings, {counts}, not paired{doubt}; "


def _cells(row: FigureRow) -> list[str]:
    digits = 3 if row.address[-1].startswith(_FINE) else 2
    name = " ".join([_SHORT.get(part, part) for part in row.address]).replace("hs_sum", "hs-sum")
    means = [spread(mean, sd, digits) for mean, sd in zip((row.a, row.b), row.spread, strict=True)]
    cells = [name, *means, f"{row.difference:+z.{digits}f}"]
    if row.interval is None:
        return [*cells, "-", "-"]
    low, high = row.interval
    p = "-" if row.decisive is None else f"{row.decisive:.3f}"
    return [*cells, f"{low:+z.{digits}f} to {high:+z.{digits}f}", p]


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
    by: str | None = None,
    groups: str | None = None,
) -> list[Comparison]:
    """For each B one comparison for ``inference``, or for each criterion of both sides in the order of grid.inferences.

    run_a, runs_b: a run of the project, or a folder with metrics.json, ranks.parquet and occurrence.parquet, relative
    to ``start``; params: of the project in the working directory, None outside a project; base: git revision of side A;
    by, groups: as ``evaluate.by`` and ``evaluate.groups``, for the differences of each group of queries instead.
    With several B's p-values are corrected for their number. Raises UsageError for unknown names, MissingResource if
    data of ``base`` is not in the DVC cache, InputError for evaluations that cannot be paired.
    """
    if not runs_b and base is None:
        raise UsageError("compare needs RUN_B, or --base REV to compare RUN_A with what it was")
    a = revisions.find(run_a, start, params) if base is None else revisions.at_revision(run_a, start, params, base)
    sides = [revisions.find(name, start, params) for name in runs_b or [run_a]]
    names = [place.name for place in sides]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"RUN_B {', '.join(duplicates)} is given twice")
    comparisons = []
    for b in sides:
        if params:
            _warn_of_precision(a, b, params)
        for criterion_a, criterion_b in _chosen(a, b, inference, params):
            pair = a.read(criterion_a), b.read(criterion_b)
            if by or groups:
                of_queries = _groups(a, pair[0], EvaluateParams(by=by, groups=groups), params)
                comparisons.append(compared_by_group(*pair, of_queries, resamples, seed))
            else:
                comparisons.append(compared(*pair, resamples, seed))
    return comparisons if len(sides) == 1 else corrected(comparisons)


def _groups(place: Place, side: Method, options: EvaluateParams, params: Params | None) -> QueryGroups:
    """The groups of the queries of A. Raises as ``groups.read``, and UsageError for a revision."""
    if not isinstance(place.files, Disk):
        raise UsageError("--by groups the queries of the present data set; leave --base out")
    model = next(iter(side.models.values()))
    captions = model.ranks.filter(pc.equal(model.ranks["direction"], "text_to_image"))
    ids, images = (captions[name].to_numpy() for name in ("query_id", "image_id"))
    if place.single or params is None:
        texts = "query_name" if "query_name" in captions.column_names else "query_id"
        names = judgements.Names(captions[texts].combine_chunks().cast(pa.string()), ids)
        of_queries = query_groups.read(options, (ids, images), names, None)
    else:
        run = params.models(place.name)[0]
        dataset = paths.prepared(params.dataset(run)), evaluation.origin(paths.evaluations(run), model.metrics)
        of_queries = query_groups.read(options, (ids, images), judgements.dataset_names(*dataset)[1], dataset)
    assert of_queries is not None
    return of_queries


def compared_by_group(a: Method, b: Method, groups: QueryGroups, resamples: int, seed: int) -> Comparison:
    """``compared`` for R@K of the queries of each group; the group in which B loses most comes first."""
    parts = {}
    for name in groups.captions.unique():
        first, second = (
            replace(side, models={key: _of_group(model, groups, name) for key, model in side.models.items()})
            for side in (a, b)
        )
        part = compared(first, second, resamples, seed)
        parts[name] = [row for row in part.rows if row.address[-1].startswith("r@")]
    order = sorted(parts, key=lambda name: sum(row.difference for row in parts[name]) / len(parts[name]))
    rows = [replace(row, address=(name, *row.address)) for name in order for row in parts[name]]
    images = len(pc.unique(next(iter(a.models.values())).ranks["image_id"]))
    return Comparison(a, b, images, rows, column=groups.column)


def _of_group(model: Compared, groups: QueryGroups, name: str) -> Compared:
    """The rows of one group, without ranks: hubness is of all queries together."""
    ranks, sides = model.ranks, zip(DIRECTIONS, (groups.images, groups.captions), strict=True)
    rows = np.zeros(len(ranks), bool)
    for direction, names in sides:
        if names is not None:
            ids = names.index[names == name].to_numpy()
            queries = np.isin(ranks["query_id"].to_numpy(), ids)
            rows |= queries & pc.equal(ranks["direction"], direction).to_numpy()
    column = ranks.schema.get_field_index("rank")
    ranks = ranks.set_column(column, "rank", pa.nulls(len(ranks), ranks["rank"].type)).filter(pa.array(rows))
    about = {key: value for key, value in model.metrics.items() if key not in (*DIRECTIONS, "rsum", "hs_sum")}
    return replace(model, metrics=about, ranks=ranks)


def corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """Comparisons with Holm's p-values. A family is one figure under one criterion over all B's."""
    families: dict[tuple, list[tuple[int, int]]] = {}
    for number, comparison in enumerate(comparisons):
        first, second = (side.metrics.get("inference") for side in (comparison.a, comparison.b))
        criterion = first if first == second else None
        for place, row in enumerate(comparison.rows):
            if row.p is not None:
                families.setdefault((*row.address, criterion), []).append((number, place))
    rows = [list(comparison.rows) for comparison in comparisons]
    for family in families.values():
        corrected = holm([rows[number][place].p or 0.0 for number, place in family])
        for (number, place), p in zip(family, corrected, strict=True):
            rows[number][place] = replace(rows[number][place], holm=p)
    at_once = len({comparison.b.name for comparison in comparisons})
    return [replace(comparison, rows=new, at_once=at_once) for comparison, new in zip(comparisons, rows, strict=True)]


def _warn_of_precision(a: Place, b: Place, params: Params) -> None:
    """Warn if the features of A and B were computed in bfloat16 and in float32: they differ in the fourth digit."""
    folders = [(place, folder) for place in (a, b) for folder in _feature_folders(place, params)]
    precisions = {place.files.label(folder): _precision(place, folder) for place, folder in folders}
    if len(set(precisions.values()) - {None}) > 1:
        listing = ", ".join(f"{folder} in {precision}" for folder, precision in precisions.items())
        warn(f"the features were not computed alike: {listing}; set precision in params.yaml and extract them again")


def _feature_folders(place: Place, params: Params) -> list[Path]:
    """Features of a run or of the members of an ensemble; empty for a folder of an evaluation."""
    ensemble = None if place.single else params.ensembles.get(place.name)
    runs = ensemble.members if ensemble else params.models(place.name)[:1]
    nodes = [params.runs[run] for run in runs if not place.single and run in params.runs]
    return [paths.extracted(node.dataset, node.features) for node in nodes]


def _precision(place: Place, folder: Path) -> str | None:
    try:
        with place.files.local(folder, (features.META,)) as local:
            return read_json(local / features.META).get("precision")
    except (InputError, MissingResource):  # not fetched
        return None


def _chosen(a: Place, b: Place, inference: str | None, params: Params | None) -> list[tuple[str, str]]:
    if a.single and b.single:
        if inference is not None:
            raise UsageError("--inference chooses a criterion of a run; both sides are folders of one criterion")
        return [(a.criteria()[0], b.criteria()[0])]
    if a.single or b.single:
        name = inference or (a if a.single else b).criteria()[0]
        return [(a.criteria()[0] if a.single else a.check(name), b.criteria()[0] if b.single else b.check(name))]
    if inference is not None:
        return [(a.check(inference), b.check(inference))]
    return [(name, name) for name in revisions.common(a, b, params.grid.inferences if params else [])]
